// The thread pool: torch's once csrc/torch has installed it; until then all work runs on the calling thread.
#pragma once
#include <cstdint>

namespace tile::cpu {

struct ParallelRuntime {
  // Calls body(begin, end, context) on parts of [0, count). The calling thread runs the first part.
  // Exceptions that body throws reach the caller.
  void (*run)(int64_t count, void (*body)(int64_t begin, int64_t end, void* context), void* context);
  int (*threads)();  // number of parts that run in parallel
};
void set_parallel_runtime(const ParallelRuntime& runtime);
const ParallelRuntime& parallel_runtime();

}  // namespace tile::cpu
