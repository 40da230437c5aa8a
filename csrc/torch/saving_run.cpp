// Launches kernels that save, in the place of those that an operator's run launches.
#include "torch/saving_run.h"

#include <ATen/ops/empty.h>

#include "torch/args.h"

namespace tile {
namespace {

std::vector<int64_t> shape_of(const SavedTile& tile, const Grid& grid) {
  std::vector<int64_t> shape{grid.x * grid.y * grid.z};
  shape.insert(shape.end(), tile.shape.begin(), tile.shape.end());
  return shape;
}

// Sizes of a tensor that hold a tag. A number in memory would be on another device than the tiles, or the
// host would wait for a GPU to read it. The first size is 0, so the tensor has no elements.
std::vector<int64_t> sizes_of_tag(int64_t tag) {
  constexpr int64_t part = 0x7fffffff;
  return {0, tag & part, tag >> 31 & part};
}

class SavingRun final : public LaunchRecord {
 public:
  explicit SavingRun(at::TensorOptions options) : options_(std::move(options)) {}

  char* note(void* storage) override { return memory_.of(static_cast<c10::StorageImpl*>(storage)); }
  void refuse(std::string_view) const override {}  // kernels of other kinds run and save nothing
  void add(RecordedLaunch launch) override {
    const Pause pause;
    const std::shared_ptr<ReverseKernel> kernel = saving_.add(*launch.kernel, launch.grid, launch.arguments);
    if (!kernel) {
      std::vector<ArgumentRef> refs;
      for (const Argument& argument : launch.arguments)
        std::visit([&](const auto& each) { refs.emplace_back(each); }, argument);
      launch.run(refs);
      return;
    }
    for (const SavedTile& tile : kernel->saved()) {
      saved_.push_back(at::empty(shape_of(tile, launch.grid), options_.dtype(to_scalar_type(tile.dtype))));
      launch.arguments.emplace_back(to_array_argument(saved_.back()));
    }
    kernel->launched().launch(launch.grid, launch.arguments);
  }
  std::vector<at::Tensor> take() {
    if (!saved_.empty())
      saved_.insert(saved_.begin(), at::empty(sizes_of_tag(saving_.tag()), options_.dtype(at::kByte)));
    return std::move(saved_);
  }

 private:
  const at::TensorOptions options_;
  StorageMemory memory_;
  std::vector<at::Tensor> saved_;
  SavingLaunches saving_;
};

}  // namespace

void fill_and_save(const OperatorRecord& op, size_t base, BoxedValues& stack) {
  if (Derivation::of_thread()) return fill_results(op, base, stack);
  at::TensorOptions options;
  for_each_tensor(op, stack.data() + base, [&](const at::Tensor& tensor) {
    if (tensor.defined()) options = at::TensorOptions().device(tensor.device());
  });
  SavingRun run(options);
  fill_results(op, base, stack);
  stack.back() = run.take();
}

std::vector<SavedLaunch> saved_launches(const std::vector<const RecordedLaunch*>& launches,
                                        const std::vector<at::Tensor>& saved) {
  if (saved.empty()) return {};
  std::vector<SavedLaunch> list;
  SavingLaunches saving;
  size_t next = 1;
  for (const RecordedLaunch* launch : launches) {
    SavedLaunch own{saving.add(*launch->kernel, launch->grid, launch->arguments), {}};
    if (own.kernel) {
      for (const SavedTile& tile : own.kernel->saved()) {
        if (next >= saved.size() || saved[next].sizes() != at::IntArrayRef(shape_of(tile, launch->grid)) ||
            saved[next].scalar_type() != to_scalar_type(tile.dtype))
          return {};
        own.tiles.push_back(saved[next++]);
      }
    }
    list.push_back(std::move(own));
  }
  if (next != saved.size() || saved[0].sizes() != at::IntArrayRef(sizes_of_tag(saving.tag()))) return {};
  return list;
}

}  // namespace tile
