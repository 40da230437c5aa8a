// The kernels launched last on a device, for errors that are reported later than their cause.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

namespace tile {

class RecentLaunches {
 public:
  // May be called from any thread and takes no lock; of two simultaneous calls, one may be lost. `kernel`
  // must never be freed.
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

inline std::vector<const char*> RecentLaunches::names() const {
  std::vector<const char*> names;
  const size_t next = next_.load(std::memory_order_relaxed);
  for (size_t back = 1; back <= std::min(next, kernels_.size()); ++back)
    if (const char* name = kernels_[(next - back) % kernels_.size()].load(std::memory_order_relaxed);
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  return names;
}

}  // namespace tile
