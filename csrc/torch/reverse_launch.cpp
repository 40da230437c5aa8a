// Chooses how a derived kernel is launched, and adds up what its blocks have in common.
#include "torch/reverse_launch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>

#include "derive/gradient_sum.h"
#include "derive/kept_values.h"
#include "derive/work.h"
#include "driver/driver.h"
#include "ir/print.h"
#include "torch/args.h"
#include "torch/context.h"
#include "torch/overlap.h"
#include "torch/storage_memory.h"

namespace tile {
namespace {

constexpr int64_t small_bytes = int64_t{1} << 22;  // of partial sums, which are always taken
constexpr int64_t cpu_blocks = 64;            // whatever the number of threads, because sums depend on it
constexpr int64_t gpu_multiprocessors = 132;  // of the GPU that a meta tensor represents
constexpr double accesses_of_parts = 3;       // they are filled with zeros, written and read
constexpr int64_t most_blocks = 65535;        // of a GPU along the second and third axis of a grid

// Returns a contiguous tensor as an array of another shape.
ArrayArgument viewed(const at::Tensor& tensor, std::initializer_list<int64_t> shape) {
  ArrayArgument array = to_array_argument(tensor);
  array.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), array.sizes.begin());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0; stride *= array.sizes[axis]) array.strides[axis] = stride;
  return array;
}

// out = sum of parts over its first axis, and with `adds` of what is in out. parts: [p, n], out: [n], both
// contiguous, of any shape.
void add_parts(const at::Tensor& parts, const at::Tensor& out, bool adds) {
  const bool cpu = parts.is_cpu();
  const int64_t size = out.numel(), count = parts.numel() / size,
                rows = count < 16    ? 1
                       : cpu         ? 16
                       : count < 256 ? 64
                                     : 256;
  int64_t columns =
      cpu ? 128 : 32;  // on a GPU narrow tiles make blocks enough, and high ones have more under way
  if (cpu)             // a block costs as much as a thousand additions
    while (columns * rows < 4096 && 16 * columns < size) columns *= 2;
  const DType from = to_dtype(parts.scalar_type()), to = to_dtype(out.scalar_type());
  static std::mutex mutex;
  static auto* const kernels = new std::map<std::tuple<DType, DType, bool, int64_t, int64_t>, TextKernel>;
  const TextKernel* const kernel = [&] {
    const std::lock_guard lock(mutex);
    const std::tuple key(from, to, adds, rows, columns);
    const auto known = kernels->find(key);
    if (known != kernels->end()) return &known->second;
    return &kernels->try_emplace(key, print(gradient_sum(from, to, adds, rows, columns))).first->second;
  }();
  kernel->launch({(size + columns - 1) / columns}, {viewed(parts, {count, size}), viewed(out, {size})});
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

// The kernel's arguments; behind them, of a folded kernel, the number of blocks that it computes.
std::vector<Argument> arguments_of(const GradientLaunch& launch, const Derived& derived) {
  std::vector<Argument> arguments = launch.arguments;
  if (derived.folded_axis >= 0)
    arguments.emplace_back(scalar_argument(static_cast<int>(axis_of(launch.grid, derived.folded_axis))));
  return arguments;
}

// The kernel that is launched, over a grid that may have fewer blocks.
struct Choice {
  const ReverseKernel::Made* made;
  Grid grid;
};

class Chooser {
 public:
  explicit Chooser(const GradientLaunch& launch) : launch_(launch) {}

  Choice choose() {
    const Choice choice = choose_sharing();
    const Derived& derived = choice.made->derived;
    if (derived.scratch.empty()) return choice;
    const std::vector<Argument> arguments = arguments_of(launch_, derived);
    std::vector<Keeping> keeping = choose_keeping(derived, sizes_of(choice.grid, arguments));
    if (launch_.way && launch_.way->keeping)
      for (Keeping& each : keeping)
        if (each != Keeping::places) each = *launch_.way->keeping;
    const auto kept = [&]() -> const ReverseKernel::Made& {
      return launch_.kernel.derived(wanted_, launch_.results, derived.folded_axis, keeping);
    };
    // With segments a gradient may lose its transposed kernel. That costs more than the memory that segments
    // save, so that all iterations are kept then.
    const auto &ours = kept().derived.gradients, &theirs = derived.gradients;
    if (!std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(),
                    [](const auto& x, const auto& y) { return x.how == y.how; }))
      std::replace(keeping.begin(), keeping.end(), Keeping::segments, Keeping::all);
    return {&kept(), choice.grid};
  }

 private:
  // Partial sums that are much larger than the launch's own arrays are replaced by atomics.
  Choice choose_sharing() {
    for (const GradientTarget& each : launch_.targets)
      wanted_.push_back({each.parameter, launch_.way ? launch_.way->sharing : Sharing::partial, each.adds});
    if (launch_.way) return given(launch_.way->folded_axis);
    const Choice plain{&launch_.kernel.derived(wanted_, launch_.results), launch_.grid};
    const std::vector<int64_t> parts = bytes_of_parts(plain);
    if (std::all_of(parts.begin(), parts.end(), [](int64_t each) { return each < 0; }) ||
        !blocks_of(launch_.grid))
      return plain;
    const int64_t size = bytes_of(launch_.arguments);
    const Choice folded = fold(plain, parts, size / 16);
    const Choice shared = transpose(folded);
    std::vector<Wanted> with_atomics = wanted_;
    bool large = false;
    const std::vector<int64_t> left = bytes_of_parts(shared);
    for (size_t i = 0; i < left.size(); ++i)
      if (left[i] > small_bytes + 2 * size) with_atomics[i].sharing = Sharing::atomic, large = true;
    if (!large || wants_fixed_order()) return shared;
    wanted_ = with_atomics;
    return {&launch_.kernel.derived(wanted_, launch_.results), launch_.grid};
  }

  Choice given(int folded_axis) const {
    Choice made{&launch_.kernel.derived(wanted_, launch_.results, folded_axis), launch_.grid};
    if (folded_axis >= 0)
      axis_of(made.grid, folded_axis) = std::min<int64_t>(2, axis_of(made.grid, folded_axis));
    return made;
  }

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

  // Lets transposed kernels add up what has large partial sums, where that is less work.
  Choice transpose(const Choice& before) {
    const std::vector<int64_t> parts = bytes_of_parts(before);
    const auto is_large = [](int64_t bytes) { return bytes > small_bytes / 4; };
    if (std::none_of(parts.begin(), parts.end(), is_large)) return before;
    std::vector<Wanted> ways = wanted_;
    for (size_t i = 0; i < parts.size(); ++i)
      if (is_large(parts[i])) ways[i].sharing = Sharing::owner;
    for (bool again = true; again;) {
      again = false;
      const ReverseKernel::Made& made = launch_.kernel.derived(ways, launch_.results);
      for (const TransposedKernel& each : made.derived.transposed) {
        double saved = 0;
        for (const size_t number : each.gradients)
          saved += accesses_of_parts * static_cast<double>(parts[number]);
        if (work_of(made.derived, each) < saved) continue;
        for (const size_t number : each.gradients) ways[number].sharing = Sharing::partial;
        again = true;
      }
      if (again) continue;
      if (made.derived.transposed.empty()) break;
      wanted_ = ways;
      return {&made, launch_.grid};
    }
    return before;
  }

  // The bytes that a transposed kernel and what is kept for it access, and its products as bytes.
  double work_of(const Derived& derived, const TransposedKernel& transposed) const {
    const int64_t blocks = blocks_of(launch_.grid);
    const std::optional<int64_t> most =
        most_iterations(*derived.whole, *transposed.loop, sizes_of(launch_.grid, launch_.arguments));
    const int64_t iterations = most.value_or(0);
    if (!most || (transposed.axis > 0 && iterations > most_blocks))
      return std::numeric_limits<double>::infinity();
    double bytes = 0;
    for (const size_t number : transposed.kept) {
      const DerivedScratch& kept = derived.kept[number];
      bytes += 2 * tile::bytes_of(kept.dtype, kept.shape) * static_cast<double>(blocks);
    }
    const bool cpu = launch_.targets.at(0).tensor.is_cpu();
    bytes += static_cast<double>(blocks) * static_cast<double>(iterations) *
             (transposed.narrow_flops / flops_per_byte(cpu, true) +
              transposed.other_flops / flops_per_byte(cpu, false));
    return bytes;
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

int64_t iterations_of(const Derived& derived, const TransposedKernel& transposed,
                      const GradientLaunch& launch) {
  const auto most =
      most_iterations(*derived.whole, *transposed.loop, sizes_of(launch.grid, launch.arguments));
  TILE_CHECK(most, "a transposed loop has no bound");
  return *most;
}
Grid grid_of(const Derived& derived, const TransposedKernel& transposed, const GradientLaunch& launch) {
  Grid grid = launch.grid;
  axis_of(grid, transposed.axis) = blocks_of(grid) ? iterations_of(derived, transposed, launch) : 0;
  return grid;
}
// The grid of the transposed kernel that writes a gradient; without blocks if there is none.
Grid owners_of(const GradientLaunch& launch, const Derived& derived, size_t gradient) {
  for (const TransposedKernel& each : derived.transposed)
    if (std::find(each.gradients.begin(), each.gradients.end(), gradient) != each.gradients.end())
      return grid_of(derived, each, launch);
  return {0, 0, 0};
}

// Adds to a view whose elements have memory of their own.
void add_to_elements(const at::Tensor& view, const at::Tensor& value) {
  const bool dense = view.is_contiguous();
  const at::Tensor sum = dense ? view : at::empty(view.sizes(), view.options()).copy_(view);
  add_parts(value.contiguous(), sum, true);
  if (!dense) view.copy_(sum);
}

// Returns the least n for which the places i, i + n, i + 2 n, … along an axis are apart in memory.
int64_t slices_along(const at::Tensor& view, int64_t axis) {
  int64_t span = 1;
  for (int64_t other = 0; other < view.dim(); ++other)
    if (other != axis) span += (view.size(other) - 1) * view.stride(other);
  return std::min(view.size(axis), (span + view.stride(axis) - 1) / view.stride(axis));
}

// Adds slices after each other, in each of which no elements share memory.
void add_slices(const at::Tensor& view, const at::Tensor& value) {
  if (!overlaps_itself(view)) return add_to_elements(view, value);
  int64_t axis = 0, count = std::numeric_limits<int64_t>::max();
  for (int64_t each = 0; each < view.dim(); ++each) {
    if (view.size(each) < 2) continue;
    if (const int64_t slices = slices_along(view, each); slices > 1 && slices < count)
      axis = each, count = slices;
  }
  for (int64_t first = 0; first < count; ++first)
    add_slices(view.slice(axis, first, view.size(axis), count),
               value.slice(axis, first, view.size(axis), count));
}

// Adds to a view of which elements share memory, as windows do that unfold() makes.
void add_to_shared_elements(const at::Tensor& view, const at::Tensor& value) {
  const int64_t elements = span_of(view) / static_cast<int64_t>(view.itemsize());
  const at::Tensor memory = view.as_strided({elements}, {1});
  const at::ScalarType dtype = value.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor sum = at::empty({elements}, view.options().dtype(dtype)).copy_(memory);
  add_slices(sum.as_strided(view.sizes(), view.strides(), 0), value);
  memory.copy_(sum);
}

// Memory [parts…, shape…] whose sum over the parts is a gradient.
struct Sum {
  const GradientTarget* target;
  at::Tensor memory;

  void run() const {
    const at::Tensor& view = target->tensor;
    if (!view.numel()) return;
    if (view.is_contiguous()) {
      add_parts(memory, view, target->adds);
    } else {
      const at::Tensor sum = at::empty(view.sizes(), memory.options());
      add_parts(memory, sum, false);
      accumulate(view, sum, target->adds);
    }
  }
};

}  // namespace

LaunchSizes sizes_of(const Grid& grid, const std::vector<Argument>& arguments) {
  LaunchSizes sizes;
  for (int axis = 0; axis < 3; ++axis) sizes.blocks[axis] = axis_of(grid, axis);
  sizes.extent = [&arguments](size_t parameter, int64_t axis) {
    return std::get<ArrayArgument>(arguments.at(parameter)).sizes[static_cast<size_t>(axis)];
  };
  sizes.scalar = [&arguments](size_t parameter) {
    const auto& number = std::get<ScalarArgument>(arguments.at(parameter));
    return info(number.dtype).bytes == 8 ? static_cast<int64_t>(number.bits)
                                         : static_cast<int64_t>(static_cast<int32_t>(number.bits));
  };
  sizes.bytes = bytes_of(arguments);
  return sizes;
}

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
    add_parts(parts, sum, false);
    value = sum.unsqueeze(axis), view = view.narrow(axis, 0, 1);
  }
  overlaps_itself(view) ? add_to_shared_elements(view, value) : add_to_elements(view, value);
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
      if (gradient.how == DerivedGradient::summed)
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
    const Grid grid = gradient.how == DerivedGradient::owned ? owners_of(launch, derived, i) : launch.grid;
    if (!target.adds && !is_covered(gradient.covers, grid, view)) at::Tensor(view).zero_();
  }
  if (blocks_of(launch.grid)) {
    std::vector<Argument> arguments = arguments_of(launch, derived);
    for (const std::vector<at::Tensor>* list : {&launch.incoming, &std::as_const(memories)})
      for (const at::Tensor& tensor : *list) arguments.emplace_back(to_array_argument(tensor));
    std::vector<at::Tensor> scratch;
    const LaunchSizes sizes = sizes_of(choice.grid, arguments);
    for (const DerivedScratch& each : derived.scratch) {
      const bool given = launch.way && launch.way->places && each.keeping == Keeping::places;
      std::vector<int64_t> shape{blocks_of(choice.grid),
                                 given ? *launch.way->places : places_of(derived, each, sizes)};
      shape.insert(shape.end(), each.shape.begin(), each.shape.end());
      scratch.push_back(at::empty(shape, options.dtype(to_scalar_type(each.dtype))));
      arguments.emplace_back(to_array_argument(scratch.back()));
    }
    if (!derived.transposed.empty())
      for (int axis = 0; axis < 3; ++axis)
        arguments.emplace_back(scalar_argument(static_cast<int>(axis_of(launch.grid, axis))));
    for (const DerivedScratch& each : derived.kept) {
      std::vector<int64_t> shape{blocks_of(launch.grid)};
      shape.insert(shape.end(), each.shape.begin(), each.shape.end());
      scratch.push_back(at::empty(shape, options.dtype(to_scalar_type(each.dtype))));
      arguments.emplace_back(to_array_argument(scratch.back()));
    }
    if (choice.made->has_effects) choice.made->kernel.launch(choice.grid, arguments);
    if (choice.made->remainder) choice.made->remainder->launch(choice.grid, arguments);
    for (size_t i = 0; i < derived.transposed.size(); ++i) {
      const TransposedKernel& transposed = derived.transposed[i];
      Grid grid = grid_of(derived, transposed, launch);
      int64_t& blocks = axis_of(grid, transposed.axis);
      if (!blocks_of(grid)) continue;
      const bool wide = may_be_wide(derived, transposed, blocks, [&](size_t gradient, size_t axis) {
        return launch.targets[gradient].tensor.size(static_cast<int64_t>(axis));
      });
      if (wide) blocks = (blocks + transposed.width - 1) / transposed.width;
      (wide ? choice.made->transposed[i].wide : choice.made->transposed[i].kernel)->launch(grid, arguments);
    }
  }
  for (const Sum& sum : sums) sum.run();
}

}  // namespace tile
