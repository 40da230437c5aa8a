// Launches kernels that save, in the place of those that an operator's run launches.
#include "torch/saving_run.h"

#include <ATen/ops/empty.h>

#include "torch/args.h"
#include "torch/reverse_launch.h"

namespace tile {
namespace {

std::shared_ptr<ReverseKernel> saving_kernel(const RecordedLaunch& launch) {
  const Differentiable& parameters = launch.kernel->parameters();
  bool cpu = true;
  for (const Argument& each : launch.arguments)
    if (const auto* array = std::get_if<ArrayArgument>(&each)) cpu &= array->device == DeviceKind::cpu;
  return launch.kernel->saving(parameters.inputs, parameters.results, sizes_of(launch.grid, launch.arguments),
                               cpu);
}

std::vector<int64_t> shape_of(const SavedTile& tile, const Grid& grid) {
  std::vector<int64_t> shape{grid.x * grid.y * grid.z};
  shape.insert(shape.end(), tile.shape.begin(), tile.shape.end());
  return shape;
}

// A hash of the kernels' names, grids, dtypes and sizes, in the order of the launches.
class Tag {
 public:
  void add(const RecordedLaunch& launch, size_t place) {
    add(static_cast<int64_t>(place));
    for (const char letter : launch.name.name) add(letter);
    for (const int64_t each : {launch.grid.x, launch.grid.y, launch.grid.z}) add(each);
    for (const Argument& argument : launch.arguments)
      if (const auto* array = std::get_if<ArrayArgument>(&argument)) {
        add(static_cast<int64_t>(array->dtype));
        for (int axis = 0; axis < array->rank; ++axis) add(array->sizes[static_cast<size_t>(axis)]);
      }
  }
  // A tensor's sizes that hold it. A number in memory would be on another device than the tiles, or the host
  // would wait for a GPU to read it. The first size is 0, so the tensor has no elements.
  std::vector<int64_t> sizes() const {
    constexpr uint64_t part = 0x7fffffff;
    return {0, static_cast<int64_t>(value_ & part), static_cast<int64_t>(value_ >> 31 & part)};
  }

 private:
  void add(int64_t word) { value_ = (value_ ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15u + 1; }
  uint64_t value_ = 0;
};

class SavingRun final : public LaunchRecord {
 public:
  explicit SavingRun(at::TensorOptions options) : options_(std::move(options)) {}

  char* note(void* storage) override { return memory_.of(static_cast<c10::StorageImpl*>(storage)); }
  void refuse(std::string_view) const override {}  // kernels of other kinds run and save nothing
  void add(RecordedLaunch launch) override {
    const Pause pause;
    const size_t place = count_++;
    const std::shared_ptr<ReverseKernel> kernel = saving_kernel(launch);
    if (!kernel) {
      std::vector<ArgumentRef> refs;
      for (const Argument& argument : launch.arguments)
        std::visit([&](const auto& each) { refs.emplace_back(each); }, argument);
      launch.run(refs);
      return;
    }
    tag_.add(launch, place);
    for (const SavedTile& tile : kernel->saved()) {
      saved_.push_back(at::empty(shape_of(tile, launch.grid), options_.dtype(to_scalar_type(tile.dtype))));
      launch.arguments.emplace_back(to_array_argument(saved_.back()));
    }
    kernel->launched().launch(launch.grid, launch.arguments);
  }
  std::vector<at::Tensor> take() {
    if (!saved_.empty()) saved_.insert(saved_.begin(), at::empty(tag_.sizes(), options_.dtype(at::kByte)));
    return std::move(saved_);
  }

 private:
  const at::TensorOptions options_;
  StorageMemory memory_;
  std::vector<at::Tensor> saved_;
  Tag tag_;
  size_t count_ = 0;
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
  Tag tag;
  size_t next = 1;
  for (size_t place = 0; place < launches.size(); ++place) {
    const RecordedLaunch& launch = *launches[place];
    SavedLaunch own{saving_kernel(launch), {}};
    if (own.kernel) {
      tag.add(launch, place);
      for (const SavedTile& tile : own.kernel->saved()) {
        if (next >= saved.size() || saved[next].sizes() != at::IntArrayRef(shape_of(tile, launch.grid)) ||
            saved[next].scalar_type() != to_scalar_type(tile.dtype))
          return {};
        own.tiles.push_back(saved[next++]);
      }
    }
    list.push_back(std::move(own));
  }
  if (next != saved.size() || saved[0].sizes() != at::IntArrayRef(tag.sizes())) return {};
  return list;
}

}  // namespace tile
