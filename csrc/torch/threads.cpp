// Runs a loop on torch's thread pool, so that kernels and torch's own operators share one.
#include "torch/threads.h"

#include <ATen/Parallel.h>

#include <exception>
#include <mutex>

#include "cpu/parallel.h"

// Exported by libtorch_cpu, unlike at::parallel_for not a template that needs -fopenmp. Its error code says
// that the body threw, not what.
extern "C" int32_t torch_parallel_for(int64_t begin, int64_t end, int64_t grain,
                                      void (*body)(int64_t, int64_t, void*), void* context);

namespace tile {
namespace {

struct Loop {
  void (*body)(int64_t, int64_t, void*);
  void* context;
  std::mutex mutex;
  std::exception_ptr error;  // the first one
};

void run_part(int64_t begin, int64_t end, void* context) {
  Loop& loop = *static_cast<Loop*>(context);
  try {
    loop.body(begin, end, loop.context);
  } catch (...) {
    std::lock_guard lock(loop.mutex);
    if (!loop.error) loop.error = std::current_exception();
  }
}

}  // namespace

void parallel_for_of_torch(int64_t begin, int64_t end, int64_t grain, void (*body)(int64_t, int64_t, void*),
                           void* context) {
  if (begin >= end) return;
  Loop loop{body, context, {}, {}};
  torch_parallel_for(begin, end, grain, run_part, &loop);
  if (loop.error) std::rethrow_exception(loop.error);
}

namespace {

[[maybe_unused]] const bool set = [] {
  cpu::set_parallel_runtime(
      {[](int64_t count, void (*body)(int64_t, int64_t, void*), void* context) {
         parallel_for_of_torch(0, count, 1, body, context);
       },
       [] { return at::in_parallel_region() ? 1 : at::get_num_threads(); }});
  return true;
}();

}  // namespace
}  // namespace tile
