// Checks of a launch that all targets share.
#pragma once
#include <new>

#include "runtime/executable.h"
#include "runtime/launch_range.h"

namespace tile {

// Raised for an array whose address is not a multiple of its element size: a GPU cannot read it, and C++
// forbids it elsewhere. A separate class, so that operators can name the argument.
struct MisalignedArray : Error {
  explicit MisalignedArray(std::string text) : Error(ErrorKind::value, std::move(text)) {}
};
inline bool is_misaligned(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) != 0;
}
// Returns "begins at address 0x7f01, which is not a multiple of the 4 bytes of f32".
std::string misaligned_text(const void* data, int64_t bytes, std::string_view dtype);

// Returns the target of the arguments' device. Raises errors for bad grids, for arrays on several devices or
// at misaligned addresses, and for extents that do not fit i32 unless the kernel takes them.
const Target& check_launch(const KernelName& kernel, const Grid& grid, ArgumentRefs arguments,
                           bool takes_wide_extents = false);

[[noreturn]] void fail_memory(const KernelName& kernel);

// Runs a checked launch; does nothing if the grid is empty.
inline void run_blocks(const KernelName& kernel, const Executable& executable, const Grid& grid,
                       ArgumentRefs arguments) {
  if (!grid.x || !grid.y || !grid.z) return;
  const LaunchRange range({kernel.name, kernel.where, arguments, &executable.touched});
  try {
    executable.run({grid.x, grid.y, grid.z}, arguments);
  } catch (const std::bad_alloc&) {
    fail_memory(kernel);
  }
}

}  // namespace tile
