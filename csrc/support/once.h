// A step that is done once. Concurrent callers wait for it; if it throws, the next caller tries.
#pragma once
#include <atomic>
#include <mutex>
#include <utility>

namespace tile {

// Not std::call_once: it throws through pthread_once, which not all implementations support;
// ThreadSanitizer's waits forever.
class Once {
 public:
  template <class F>
  void operator()(F&& step) {
    if (done_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return;
    std::forward<F>(step)();
    done_.store(true, std::memory_order_release);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> done_ = false;
};

}  // namespace tile
