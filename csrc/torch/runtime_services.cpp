// What the runtime is given by torch: its thread pool, so that kernels and torch's own operators share one,
// and its profiler, in which a kernel's name stands around its launch.
#include <ATen/record_function.h>

#include <exception>
#include <mutex>

#include "cpu/parallel.h"
#include "runtime/launch_range.h"

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

void* begin_range(const std::string& kernel) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  if (!callbacks) [[likely]]
    return nullptr;
  auto* const range = new at::RecordFunction(std::move(*callbacks));
  range->before("tile kernel " + kernel);
  return range;
}

void end_range(void* range) { delete static_cast<at::RecordFunction*>(range); }

[[maybe_unused]] const bool given =
    (cpu::set_parallel_runtime({run, threads}), LaunchRange::set_profiler({begin_range, end_range}), true);

}  // namespace
}  // namespace tile
