// The kernels that were launched last on a device, for errors that come later than what caused them.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

namespace tile {

class RecentLaunches {
 public:
  // From any thread, without a lock: of two at the same moment one may be left out. `kernel` lives for ever.
  void note(const char* kernel) {
    const size_t next = next_.load(std::memory_order_relaxed);
    kernels_[next % kernels_.size()].store(kernel, std::memory_order_relaxed);
    next_.store(next + 1, std::memory_order_relaxed);
  }
  // Newest first, each once.
  std::vector<const char*> names() const;

 private:
  std::array<std::atomic<const char*>, 8> kernels_{};
  std::atomic<size_t> next_ = 0;
};

}  // namespace tile
