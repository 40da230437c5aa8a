// Counts the memory that a launch reads and writes, from its arguments.
#pragma once
#include "ir/touched.h"
#include "runtime/argument.h"

namespace tile {

// Bytes of the arrays that a launch reads and of those that it writes, each array counted once in either. An
// array whose elements it picks may be accessed in part, and so may one that overlaps itself: only `most`
// counts them.
struct LaunchBytes {
  int64_t least = 0, most = 0;
};
LaunchBytes launch_bytes(ArgumentRefs arguments, const Touched& touched);

}  // namespace tile
