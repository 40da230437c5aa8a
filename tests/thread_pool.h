// Threads for kernels in tests without torch, and where ThreadSanitizer looks on: it does not know OpenMP's,
// which torch's pool is.
#pragma once
#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cpu/exec/parallel.h"

namespace tile {

inline constexpr int pool_threads = 4;

// While it exists, kernels run on four threads: the caller's, and new ones for each launch.
class ThreadPool {
 public:
  ThreadPool() : before_(cpu::parallel_runtime()) {
    cpu::set_parallel_runtime({run, [] { return inside ? 1 : pool_threads; }});
  }
  ThreadPool(const ThreadPool&) = delete;
  ~ThreadPool() { cpu::set_parallel_runtime(before_); }

 private:
  static void run(int64_t count, void (*body)(int64_t begin, int64_t end, void* context), void* context) {
    std::mutex mutex;
    std::exception_ptr error;  // the first one
    const int64_t part = std::max<int64_t>(1, (count + pool_threads - 1) / pool_threads);
    const auto run_part = [&](int64_t begin) {
      const bool before = std::exchange(inside, true);
      try {
        body(begin, std::min(begin + part, count), context);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
      inside = before;
    };
    std::vector<std::thread> threads;
    for (int64_t begin = part; begin < count; begin += part) threads.emplace_back(run_part, begin);
    if (count > 0) run_part(0);
    for (std::thread& thread : threads) thread.join();
    if (error) std::rethrow_exception(error);
  }

  static inline thread_local bool inside = false;
  const cpu::ParallelRuntime before_;
};

}  // namespace tile
