// Chooses how a derived kernel is launched, and adds up what its blocks have in common.
#include "torch/reverse_launch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "derive/gradient_sum.h"
#include "driver/driver.h"
#include "ir/print.h"
#include "torch/args.h"
#include "torch/context.h"
#include "torch/overlap.h"

namespace tile {
namespace {

constexpr int64_t small_bytes = int64_t{1} << 22;  // of partial sums, which are always taken
constexpr int64_t cpu_blocks = 64;            // whatever the number of threads, because sums depend on it
constexpr int64_t gpu_multiprocessors = 132;  // of the GPU that a meta tensor represents

// out = sum of parts over its first axis, and with `adds` of what is in out. parts: [p, n] and contiguous;
// out: [n].
void add_parts(const at::Tensor& parts, const at::Tensor& out, bool adds) {
  // On a GPU narrow tiles make blocks enough, and high ones have more under way.
  const bool cpu = parts.is_cpu();
  const int64_t columns = cpu ? 128 : 32, count = parts.size(0),
                rows = count < 16    ? 1
                       : cpu         ? 16
                       : count < 256 ? 64
                                     : 256;
  const DType from = to_dtype(parts.scalar_type()), to = to_dtype(out.scalar_type());
  static std::mutex mutex;
  static auto* const kernels = new std::map<std::tuple<DType, DType, bool, int64_t>, TextKernel>;
  const TextKernel* const kernel = [&] {
    const std::lock_guard lock(mutex);
    const std::tuple key(from, to, adds, rows);
    const auto known = kernels->find(key);
    if (known != kernels->end()) return &known->second;
    return &kernels->try_emplace(key, print(gradient_sum(from, to, adds, rows, columns))).first->second;
  }();
  kernel->launch({(out.size(0) + columns - 1) / columns}, {to_array_argument(parts), to_array_argument(out)});
}

int64_t blocks_of(const Grid& grid) { return grid.x * grid.y * grid.z; }
int64_t& axis_of(Grid& grid, int axis) { return axis == 0 ? grid.x : axis == 1 ? grid.y : grid.z; }
int64_t axis_of(const Grid& grid, int axis) { return axis == 0 ? grid.x : axis == 1 ? grid.y : grid.z; }

// A number of blocks that keeps a device busy.
int64_t blocks_at_once(const at::Tensor& on) {
  if (on.is_cpu()) return cpu_blocks;
  return 4 *
         (on.is_cuda() ? Driver::get().properties(on.device().index()).multiprocessors : gpu_multiprocessors);
}

int64_t bytes_of(const std::vector<Argument>& arguments) {
  int64_t bytes = 0;
  for (const Argument& each : arguments)
    if (const auto* array = std::get_if<ArrayArgument>(&each)) {
      int64_t own = info(array->dtype).bytes;
      for (int axis = 0; axis < array->rank; ++axis) own *= array->sizes[static_cast<size_t>(axis)];
      bytes += own;
    }
  return bytes;
}

// The kernel that is launched, over a grid that may have fewer blocks.
struct Choice {
  const ReverseKernel::Made* made;
  Grid grid;
};

class Chooser {
 public:
  explicit Chooser(const GradientLaunch& launch) : launch_(launch) {}

  // Partial sums that are much larger than the launch's own arrays are replaced by atomics.
  Choice choose() {
    for (const GradientTarget& each : launch_.targets)
      wanted_.push_back({each.parameter, Sharing::partial, each.adds});
    const Choice plain{&launch_.kernel.derived(wanted_, launch_.results), launch_.grid};
    const std::vector<int64_t> parts = bytes_of_parts(plain);
    if (std::all_of(parts.begin(), parts.end(), [](int64_t each) { return each < 0; }) ||
        !blocks_of(launch_.grid))
      return plain;
    const int64_t size = bytes_of(launch_.arguments);
    const Choice folded = fold(plain, parts, size / 16);
    std::vector<Wanted> with_atomics = wanted_;
    bool large = false;
    const std::vector<int64_t> left = bytes_of_parts(folded);
    for (size_t i = 0; i < left.size(); ++i)
      if (left[i] > small_bytes + 2 * size) with_atomics[i].sharing = Sharing::atomic, large = true;
    if (!large || wants_fixed_order()) return folded;
    return {&launch_.kernel.derived(with_atomics, launch_.results), launch_.grid};
  }

 private:
  // The bytes of the partial sums of each array; -1: it has none.
  std::vector<int64_t> bytes_of_parts(const Choice& of) const {
    std::vector<int64_t> bytes;
    for (size_t i = 0; i < launch_.targets.size(); ++i) {
      const DerivedGradient& gradient = of.made->derived.gradients[i];
      int64_t own = -1;
      if (gradient.how == DerivedGradient::summed) {
        own = launch_.targets[i].tensor.numel() * info(gradient.dtype).bytes;
        for (int axis : gradient.axes) own *= axis_of(of.grid, axis);
      }
      bytes.push_back(own);
    }
    return bytes;
  }

  // Blocks along one axis of the grid are computed by few, which add up what they share, so that partial sums
  // are few, too.
  Choice fold(const Choice& plain, const std::vector<int64_t>& parts, int64_t limit) const {
    int axis = -1;
    for (int each = 0; each < 3; ++each) {
      const auto& gradients = plain.made->derived.gradients;
      const bool shared = std::all_of(gradients.begin(), gradients.end(), [&](const auto& gradient) {
        const auto& axes = gradient.axes;
        return gradient.how != DerivedGradient::summed ||
               std::find(axes.begin(), axes.end(), each) != axes.end();
      });
      if (shared && (axis < 0 || axis_of(plain.grid, each) > axis_of(plain.grid, axis))) axis = each;
    }
    if (axis < 0) return plain;
    const int64_t own = axis_of(plain.grid, axis), others = blocks_of(plain.grid) / own;
    const int64_t at_once = blocks_at_once(launch_.targets.at(0).tensor);
    const int64_t blocks = std::max<int64_t>(1, (at_once + others - 1) / others);
    int64_t bytes = 0;
    for (const int64_t each : parts) bytes += std::max<int64_t>(each, 0);
    if (own < 4 * blocks || bytes <= limit) return plain;
    const ReverseKernel::Made* made = launch_.kernel.folded(wanted_, launch_.results, axis);
    if (!made) return plain;
    Choice folded{made, plain.grid};
    axis_of(folded.grid, axis) = blocks;
    return folded;
  }

  const GradientLaunch& launch_;
  std::vector<Wanted> wanted_;
};

// Blocks along an axis that the kernel does not ask for repeat each other.
void check_grid(const GradientLaunch& launch, const Derived& derived) {
  const auto& axes = derived.grid_axes;
  for (int axis = 0; axis < 3; ++axis)
    if (axis_of(launch.grid, axis) > 1 && std::find(axes.begin(), axes.end(), axis) == axes.end())
      fail(ErrorKind::value, launch.name, ": the grid has ", axis_of(launch.grid, axis),
           " blocks along axis ", axis, ", but the kernel does not use bid(", axis,
           "), so that blocks repeat each other and gradients would be counted repeatedly; launch one block "
           "along this axis");
}

// Returns true if the tiles of a launch cover an array, so that every element is stored.
bool is_covered(const std::vector<Cover>& covers, const Grid& grid, const at::Tensor& view) {
  if (covers.empty() || !blocks_of(grid)) return false;
  for (size_t i = 0; i < covers.size() && static_cast<int64_t>(i) < view.dim(); ++i) {
    const auto& [axis, extent, whole] = covers[i];
    if (!whole && (axis >= 0 ? axis_of(grid, axis) : 1) * extent < view.size(static_cast<int64_t>(i)))
      return false;
  }
  return true;
}

// Memory [parts…, shape…] whose sum over the parts is a gradient.
struct Sum {
  const GradientTarget* target;
  at::Tensor memory;

  void run() const {
    const at::Tensor& view = target->tensor;
    if (!view.numel()) return;
    const at::Tensor parts = memory.view({-1, view.numel()});
    if (view.is_contiguous()) {
      add_parts(parts, view.view({-1}), target->adds);
    } else {
      const at::Tensor sum = at::empty(view.sizes(), memory.options());
      add_parts(parts, sum.view({-1}), false);
      accumulate(view, sum, target->adds);
    }
  }
};

LaunchSizes sizes_of(const Grid& grid, const std::vector<Argument>& arguments) {
  LaunchSizes sizes;
  for (int axis = 0; axis < 3; ++axis) sizes.blocks[axis] = axis_of(grid, axis);
  sizes.extent = [&](size_t parameter, int64_t axis) {
    return std::get<ArrayArgument>(arguments.at(parameter)).sizes[static_cast<size_t>(axis)];
  };
  sizes.scalar = [&](size_t parameter) {
    const auto& number = std::get<ScalarArgument>(arguments.at(parameter));
    return info(number.dtype).bytes == 8 ? static_cast<int64_t>(number.bits)
                                         : static_cast<int64_t>(static_cast<int32_t>(number.bits));
  };
  return sizes;
}

}  // namespace

void accumulate(at::Tensor view, at::Tensor value, bool adds) {
  if (!view.numel()) return;
  if (!adds) {
    if (!overlaps_itself(view)) {
      view.copy_(value);
      return;
    }
    view.zero_();
  }
  for (int64_t axis = 0; axis < view.dim(); ++axis) {
    if (view.stride(axis) != 0 || view.size(axis) == 1) continue;
    const at::Tensor parts = value.movedim(axis, 0).contiguous();
    const bool wide = value.scalar_type() == at::kDouble;
    const at::Tensor sum =
        at::empty(parts.sizes().slice(1), value.options().dtype(wide ? at::kDouble : at::kFloat));
    add_parts(parts.view({parts.size(0), -1}), sum.view({-1}), false);
    value = sum.unsqueeze(axis), view = view.narrow(axis, 0, 1);
  }
  if (overlaps_itself(view))
    fail(ErrorKind::unsupported, "the gradient of an array of shape ", view.sizes(), " and strides ",
         view.strides(), ", whose elements share memory, is not derived; pass a clone() of it to the kernel");
  const bool dense = view.is_contiguous();
  const at::Tensor sum = dense ? view : at::empty(view.sizes(), view.options()).copy_(view);
  add_parts(value.contiguous().view({1, -1}), sum.view({-1}), true);
  if (!dense) view.copy_(sum);
}

void launch_gradients(const GradientLaunch& launch) {
  if (launch.targets.empty()) return;
  const Choice choice = Chooser(launch).choose();
  const Derived& derived = choice.made->derived;
  check_grid(launch, derived);
  const auto options = launch.targets[0].tensor.options();
  std::vector<at::Tensor> memories, direct;
  std::vector<Sum> sums;
  for (size_t i = 0; i < launch.targets.size(); ++i) {
    const GradientTarget& target = launch.targets[i];
    const at::Tensor& view = target.tensor;
    const DerivedGradient& gradient = derived.gradients[i];
    if (gradient.how == DerivedGradient::atomic && wants_fixed_order())
      fail(ErrorKind::runtime, launch.name, ": the gradient of argument ", target.parameter,
           " is added by atomics, which is not deterministic; use "
           "torch.use_deterministic_algorithms(False), or write the gradient by hand");
    const at::ScalarType dtype = to_scalar_type(gradient.dtype);
    const bool shares =
        view.numel() && (overlaps_itself(view) || std::any_of(direct.begin(), direct.end(), [&](auto& each) {
                           return overlap(view, each);
                         }));
    if (gradient.how == DerivedGradient::summed || shares || view.scalar_type() != dtype) {
      std::vector<int64_t> shape;
      for (int axis : gradient.axes) shape.push_back(axis_of(choice.grid, axis));
      shape.insert(shape.end(), view.sizes().begin(), view.sizes().end());
      const bool covered = gradient.how == DerivedGradient::summed && !shares &&
                           is_covered(gradient.covers, launch.grid, view);
      memories.push_back(covered ? at::empty(shape, options.dtype(dtype))
                                 : at::zeros(shape, options.dtype(dtype)));
      sums.push_back({&target, memories.back()});
      continue;
    }
    direct.push_back(view);
    memories.push_back(view);
    if (!target.adds && !is_covered(gradient.covers, launch.grid, view)) at::Tensor(view).zero_();
  }
  if (blocks_of(launch.grid)) {
    std::vector<Argument> arguments = launch.arguments;
    if (derived.folded_axis >= 0)
      arguments.emplace_back(scalar_argument(static_cast<int>(axis_of(launch.grid, derived.folded_axis))));
    for (const std::vector<at::Tensor>* list : {&launch.incoming, &std::as_const(memories)})
      for (const at::Tensor& tensor : *list) arguments.emplace_back(to_array_argument(tensor));
    std::vector<at::Tensor> scratch;
    const LaunchSizes sizes = sizes_of(choice.grid, arguments);
    for (const DerivedScratch& each : derived.scratch) {
      std::vector<int64_t> shape{blocks_of(choice.grid), most_iterations(derived.kernel, *each.loop, sizes)};
      shape.insert(shape.end(), each.shape.begin(), each.shape.end());
      scratch.push_back(at::empty(shape, options.dtype(to_scalar_type(each.dtype))));
    }
    for (const at::Tensor& tensor : scratch) arguments.emplace_back(to_array_argument(tensor));
    choice.made->kernel.launch(choice.grid, arguments);
  }
  for (const Sum& sum : sums) sum.run();
}

}  // namespace tile
