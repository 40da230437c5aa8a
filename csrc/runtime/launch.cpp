// Checks the arguments of a launch and selects its target.
#include "runtime/launch.h"

#include <algorithm>
#include <limits>

#include "runtime/array_key.h"

namespace tile {
namespace {

// Out of line, so that the hot path stays small.
[[noreturn]] void fail_grid(const KernelName& kernel, const Grid& grid, const char* limit) {
  fail(kernel.where, ErrorKind::value, "launch of ", kernel.name, ": the grid is (", grid.x, ", ", grid.y,
       ", ", grid.z, "); ", limit);
}
[[noreturn]] void fail_devices(const KernelName& kernel) {
  fail(kernel.where, ErrorKind::value, "launch of ", kernel.name,
       ": its arrays are on different devices; move them to one");
}
// Names the first extent that is larger than `most`.
[[noreturn]] void fail_extent(const KernelName& kernel, const ArrayArgument& array, int64_t most) {
  const int64_t extent =
      *std::find_if(array.sizes.begin(), array.sizes.end(), [&](int64_t size) { return size > most; });
  fail(kernel.where, ErrorKind::value, "launch of ", kernel.name, ": an array extent is ", extent,
       "; the most is ", most, ", view the array with more axes");
}

// An empty array has no address to check.
void require_alignment(const KernelName& kernel, ArgumentRefs arguments) {
  int count = 0;
  for (const ArgumentRef& argument : arguments) {
    if (!argument.array) continue;
    ++count;
    const ArrayArgument& array = *argument.array;
    const auto end = array.sizes.begin() + array.rank;
    if (is_misaligned(array.data, info(array.dtype).bytes) && std::find(array.sizes.begin(), end, 0) == end)
      throw MisalignedArray(str(kernel.where.known() ? str(kernel.where, ": ") : "", "launch of ",
                                kernel.name, ": array ", count, " of its arguments ",
                                misaligned_text(array.data, info(array.dtype).bytes, info(array.dtype).name),
                                "; copy it first"));
  }
}

}  // namespace

std::string misaligned_text(const void* data, int64_t bytes, std::string_view dtype) {
  return str("begins at address ", data, ", which is not a multiple of the ", bytes, " bytes of ", dtype);
}

void fail_memory(const KernelName& kernel) {
  fail(kernel.where, ErrorKind::runtime, "launch of ", kernel.name,
       ": there is not enough memory for the tiles of its blocks; make them smaller, or run fewer threads");
}

const Target& target_of(DeviceKind device) {
  static constexpr const Target* targets[] = {&cpu_target, &cuda_target};
  return *targets[static_cast<size_t>(device)];
}

const Target& check_launch(const KernelName& kernel, const Grid& grid, ArgumentRefs arguments,
                           bool takes_wide_extents) {
  if (grid.x < 0 || grid.y < 0 || grid.z < 0) fail_grid(kernel, grid, "an axis must be at least 0");
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  const ArrayArgument* first = nullptr;
  uintptr_t misaligned = 0;
  for (const ArgumentRef& argument : arguments) {
    const ArrayArgument* array = argument.array;
    if (!array) continue;
    if (first && (array->device != first->device || array->device_index != first->device_index))
      fail_devices(kernel);
    first = array;
    misaligned |=
        reinterpret_cast<uintptr_t>(array->data) & static_cast<uintptr_t>(info(array->dtype).bytes - 1);
    if (!takes_wide_extents && has_wide_extents(*array)) [[unlikely]]
      fail_extent(kernel, *array, most);
  }
  if (misaligned) [[unlikely]]
    require_alignment(kernel, arguments);
  const Target& target = target_of(first ? first->device : DeviceKind::cpu);
  const int64_t others = target.other_axes;
  if (std::max({grid.x, grid.y, grid.z}) > target.longest_axis ||
      (grid.x > others) + (grid.y > others) + (grid.z > others) > 1)
    fail_grid(kernel, grid, target.grid_limit);
  return target;
}

}  // namespace tile
