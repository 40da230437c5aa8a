// Adds up the distinct arrays of a launch.
#include "runtime/launch_bytes.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace tile {
namespace {

struct Memory {
  uintptr_t begin = 0, end = 0;
  int64_t bytes = 0;  // of the elements, which may leave gaps
  bool read = false, written = false, picked = false;
};

Memory memory_of(const ArrayArgument& array) {
  const int64_t width = info(array.dtype).bytes;
  int64_t before = 0, after = 0, elements = 1;
  for (size_t axis = 0; axis < static_cast<size_t>(array.rank); ++axis) {
    const int64_t size = array.sizes[axis], stride = array.strides[axis];
    if (!size) return {};
    (stride < 0 ? before : after) += (size - 1) * std::abs(stride);
    if (stride) elements *= size;
  }
  const auto data = reinterpret_cast<uintptr_t>(array.data);
  // An array that overlaps itself is often a way to reach what an index names.
  const int64_t extent = before + after + 1;
  return {.begin = data - static_cast<uintptr_t>(before * width),
          .end = data + static_cast<uintptr_t>((after + 1) * width),
          .bytes = std::min(elements, extent) * width,
          .picked = elements > extent};
}

}  // namespace

LaunchBytes launch_bytes(ArgumentRefs arguments, const Touched& touched) {
  std::vector<Memory> distinct;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].array) continue;
    Memory memory = memory_of(*arguments[i].array);
    // The parameters beyond those that have a bit may be accessed in any way.
    const auto has = [&](uint64_t bits) { return i >= 64 || (bits >> i & 1); };
    memory.read = has(touched.read), memory.written = has(touched.written);
    memory.picked |= has(touched.picked);
    const auto same = std::find_if(distinct.begin(), distinct.end(), [&](const Memory& other) {
      return other.begin == memory.begin && other.end == memory.end;
    });
    if (same == distinct.end()) {
      distinct.push_back(memory);
      continue;
    }
    same->bytes = std::max(same->bytes, memory.bytes);
    same->read |= memory.read, same->written |= memory.written, same->picked |= memory.picked;
  }
  LaunchBytes total;
  for (const Memory& memory : distinct) {
    const int64_t moved = memory.bytes * (memory.read + memory.written);
    total.most += moved;
    if (!memory.picked) total.least += moved;
  }
  return total;
}

}  // namespace tile
