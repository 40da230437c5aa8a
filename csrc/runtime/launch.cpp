// Checks what a launch was given, and finds its target.
#include "runtime/launch.h"

#include <algorithm>
#include <limits>

namespace tile {
namespace {

// Kept apart: their text is no part of a launch that is well.
[[noreturn]] void fail_grid(const KernelName& kernel, const Grid& grid, const char* limit) {
  fail(kernel.where, ErrorKind::value, "launch of ", kernel.name, ": the grid is (", grid.x, ", ", grid.y,
       ", ", grid.z, "); ", limit);
}
[[noreturn]] void fail_devices(const KernelName& kernel) {
  fail(kernel.where, ErrorKind::value, "launch of ", kernel.name,
       ": its arrays are on different devices; move them to one");
}
[[noreturn]] void fail_extent(const KernelName& kernel, int64_t extent, int64_t most) {
  fail(kernel.where, ErrorKind::value, "launch of ", kernel.name, ": an array extent is ", extent,
       "; the most is ", most, ", view the array with more axes");
}

}  // namespace

const Target& target_of(DeviceKind device) {
  static constexpr const Target* targets[] = {&cpu_target, &cuda_target};
  return *targets[static_cast<size_t>(device)];
}

const Target& check_launch(const KernelName& kernel, const Grid& grid, ArgumentRefs arguments) {
  if (grid.x < 0 || grid.y < 0 || grid.z < 0) fail_grid(kernel, grid, "an axis must be at least 0");
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  const ArrayArgument* first = nullptr;
  for (const ArgumentRef& argument : arguments) {
    const ArrayArgument* array = argument.array;
    if (!array) continue;
    if (first && (array->device != first->device || array->device_index != first->device_index))
      fail_devices(kernel);
    first = array;
    for (int i = 0; i < array->rank; ++i)
      if (const int64_t extent = array->sizes[static_cast<size_t>(i)]; extent > most)
        fail_extent(kernel, extent, most);
  }
  const Target& target = target_of(first ? first->device : DeviceKind::cpu);
  const int64_t others = target.other_axes;
  if (std::max({grid.x, grid.y, grid.z}) > target.longest_axis ||
      (grid.x > others) + (grid.y > others) + (grid.z > others) > 1)
    fail_grid(kernel, grid, target.grid_limit);
  return target;
}

}  // namespace tile
