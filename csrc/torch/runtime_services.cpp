// Connects the runtime to torch's thread pool, so that kernels and torch's operators share one, and to its
// profiler, which then shows each launch under the kernel's name.
#include <ATen/record_function.h>

#include <exception>
#include <mutex>

#include "cpu/exec/parallel.h"
#include "runtime/launch_bytes.h"
#include "runtime/launch_range.h"
#include "torch/threads.h"

// Exported by libtorch_cpu. Unlike at::parallel_for it is not a template that needs -fopenmp. Its error code
// says that the body threw, but does not carry the exception.
extern "C" int32_t torch_parallel_for(int64_t begin, int64_t end, int64_t grain,
                                      void (*body)(int64_t, int64_t, void*), void* context);
namespace at {
int get_num_threads();
bool in_parallel_region();
}  // namespace at

#ifdef TILE_SANITIZE_THREAD
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#endif

namespace tile {
int launch_threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

namespace {

// torch's threads are OpenMP threads, whose synchronisation ThreadSanitizer does not see. These calls declare
// it: writes before give() are visible after take(). Other races are still found.
void give([[maybe_unused]] void* to) {
#ifdef TILE_SANITIZE_THREAD
  __tsan_release(to);
#endif
}
void take([[maybe_unused]] void* from) {
#ifdef TILE_SANITIZE_THREAD
  __tsan_acquire(from);
#endif
}

struct Loop {
  void (*body)(int64_t, int64_t, void*);
  void* context;
  std::mutex mutex;
  std::exception_ptr error;  // the first one
};

void run_part(int64_t begin, int64_t end, void* context) {
  take(context);
  Loop& loop = *static_cast<Loop*>(context);
  try {
    loop.body(begin, end, loop.context);
  } catch (...) {
    std::lock_guard lock(loop.mutex);
    if (!loop.error) loop.error = std::current_exception();
  }
  give(context);
}

void run(int64_t count, void (*body)(int64_t, int64_t, void*), void* context) {
  if (count <= 0) return;
  Loop loop{body, context, {}, {}};
  give(&loop);
  torch_parallel_for(0, count, 1, run_part, &loop);
  take(&loop);
  if (loop.error) std::rethrow_exception(loop.error);
}

// A profiler that records inputs gets the kernel's location, and its bytes where they are known.
void* begin_range(const LaunchRange::Launch& launch) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  if (!callbacks) [[likely]]
    return nullptr;
  auto* const range = new at::RecordFunction(std::move(*callbacks));
  const std::string name = "tile kernel " + launch.kernel;
  if (!range->needsInputs()) {
    range->before(name);
    return range;
  }
  std::vector<c10::IValue> inputs = {launch.where.known() ? str(launch.where) : ""};
  if (launch.touched) {
    const LaunchBytes bytes = launch_bytes(launch.arguments, *launch.touched);
    inputs.insert(inputs.end(), {bytes.least, bytes.most});
  }
  range->before(name, &inputs);
  return range;
}

void end_range(void* range) { delete static_cast<at::RecordFunction*>(range); }

[[maybe_unused]] const bool given = (cpu::set_parallel_runtime({run, launch_threads}),
                                     LaunchRange::set_profiler({begin_range, end_range}), true);

}  // namespace
}  // namespace tile
