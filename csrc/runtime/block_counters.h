// The counters from which launches of a kernel on one device draw blocks: which launch has which. The code
// holds them, and they are 0 when it is loaded (cuda/device/block_counters.cuh).
#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "driver/driver.h"

namespace tile {

class BlockCounters {
 public:
  static constexpr uint32_t count = 8192;  // of a copy of the code

  explicit BlockCounters(const CudaFunction& function) : function_(function) {}

  struct Choice {
    CudaFunction function;  // of the copy that holds the counter
    uint32_t counter = 0;
  };
  // Launches of a stream run one after another and share a counter. A launch without a stream's id is
  // captured, and has one for itself: graphs may run at the same time, as long as the process does. One graph
  // that runs twice at a time shares its counters as it shares its memory. When all are taken, load_again()
  // loads another copy of the code.
  template <class LoadAgain>
  Choice of(std::optional<uint64_t> stream, const LoadAgain& load_again) {
    const std::lock_guard lock(mutex_);
    if (stream)
      if (const auto known = of_streams_.find(*stream); known != of_streams_.end()) return known->second;
    if (taken_ == count) function_ = load_again(), taken_ = 0;
    const Choice choice{function_, taken_++};
    if (stream) of_streams_.emplace(*stream, choice);
    return choice;
  }

 private:
  std::mutex mutex_;
  CudaFunction function_;  // of the last copy
  uint32_t taken_ = 0;     // of its counters
  std::unordered_map<uint64_t, Choice> of_streams_;
};

}  // namespace tile
