// Kernels run on torch's own thread pool.
#include "cpu/parallel.h"

#include <ATen/Parallel.h>

#include <exception>
#include <mutex>

// Exported by libtorch_cpu. at::parallel_for is a template that is serial unless this file is built with OpenMP.
extern "C" int32_t torch_parallel_for(int64_t begin, int64_t end, int64_t grain, void (*body)(int64_t, int64_t, void*),
                                      void* context);

namespace tile {
namespace {

struct Call {
  void (*body)(int64_t, int64_t, void*);
  void* context;
  std::mutex mutex;
  std::exception_ptr error;
};

void run(int64_t count, void (*body)(int64_t, int64_t, void*), void* context) {
  Call call{body, context, {}, {}};
  // The pool reports an exception as an error code without its text: it is carried past it.
  torch_parallel_for(
      0, count, 1,
      [](int64_t begin, int64_t end, void* p) {
        auto& call = *static_cast<Call*>(p);
        try {
          call.body(begin, end, call.context);
        } catch (...) {
          std::lock_guard lock(call.mutex);
          if (!call.error) call.error = std::current_exception();
        }
      },
      &call);
  if (call.error) std::rethrow_exception(call.error);
}

int threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

[[maybe_unused]] const bool set = [] {
  cpu::set_parallel_runtime({run, threads});
  return true;
}();

}  // namespace
}  // namespace tile
