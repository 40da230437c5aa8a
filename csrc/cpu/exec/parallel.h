// Threads come from outside: torch's pool once csrc/torch has set it, else everything runs on the caller.
#pragma once
#include <cstdint>

namespace tile::cpu {

struct ParallelRuntime {
  // Calls body(begin, end, context) on parts of [0, count). The calling thread runs the first part.
  // Exceptions that body throws reach the caller.
  void (*run)(int64_t count, void (*body)(int64_t begin, int64_t end, void* context), void* context);
  int (*threads)();  // how many parts run at once
};
void set_parallel_runtime(const ParallelRuntime& runtime);
const ParallelRuntime& parallel_runtime();

}  // namespace tile::cpu
