// Gives the CPU target torch's thread pool, so that kernels and torch's own operators share one.
#include <exception>
#include <mutex>

#include "cpu/parallel.h"

// Exported by libtorch_cpu, unlike at::parallel_for not a template that needs -fopenmp. Its error code says
// that the body threw, not what.
extern "C" int32_t torch_parallel_for(int64_t begin, int64_t end, int64_t grain,
                                      void (*body)(int64_t, int64_t, void*), void* context);
namespace at {
int get_num_threads();
bool in_parallel_region();
}  // namespace at

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

void run(int64_t count, void (*body)(int64_t, int64_t, void*), void* context) {
  if (count <= 0) return;
  Loop loop{body, context, {}, {}};
  torch_parallel_for(0, count, 1, run_part, &loop);
  if (loop.error) std::rethrow_exception(loop.error);
}

int threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

[[maybe_unused]] const bool given = (cpu::set_parallel_runtime({run, threads}), true);

}  // namespace
}  // namespace tile
