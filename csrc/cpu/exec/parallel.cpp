// The current thread pool.
#include "cpu/exec/parallel.h"

namespace tile::cpu {
namespace {
ParallelRuntime current{
    [](int64_t count, void (*body)(int64_t, int64_t, void*), void* context) { body(0, count, context); },
    [] { return 1; }};
}  // namespace

void set_parallel_runtime(const ParallelRuntime& runtime) { current = runtime; }
const ParallelRuntime& parallel_runtime() { return current; }

}  // namespace tile::cpu
