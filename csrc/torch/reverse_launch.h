// Launches a kernel that reverse mode has derived: memory for partial sums and for values of iterations, and
// sums afterwards.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "runtime/reverse_kernel.h"

namespace tile {

// The tensor, of an array's shape, that gets its gradient; it is added to what is there if `adds`.
struct GradientTarget {
  size_t parameter;
  at::Tensor tensor;
  bool adds = false;
};

// Replaces the choice of how a gradient is computed, in tests. folded_axis: the launch has two blocks along
// it. keeping: of all loops whose values are kept; nullopt: as in other launches. places: of those without a
// bound.
struct GradientWay {
  Sharing sharing = Sharing::partial;
  int folded_axis = -1;
  std::optional<Keeping> keeping = std::nullopt;
  std::optional<int64_t> places = std::nullopt;
};

struct GradientLaunch {
  std::string name;  // in errors
  ReverseKernel& kernel;
  Grid grid;
  const std::vector<Argument>& arguments;  // of the kernel
  std::vector<size_t> results;             // parameters
  std::vector<at::Tensor> incoming;        // their gradients, in their dtypes
  std::vector<GradientTarget> targets;
  std::optional<GradientWay> way = std::nullopt;
};
void launch_gradients(const GradientLaunch& launch);

// The sizes of a launch; they refer to the arguments.
LaunchSizes sizes_of(const Grid& grid, const std::vector<Argument>& arguments);

// Adds a value to a view, of which several elements may share memory, as those of an expanded tensor do; it
// replaces what is there unless `adds`.
void accumulate(at::Tensor view, at::Tensor value, bool adds);

}  // namespace tile
