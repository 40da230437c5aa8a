// Distributes a launch's blocks over threads: first each thread's own range of adjacent blocks, which share
// operands that the thread keeps packed, then the rest of other threads' ranges.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

namespace tile::cpu {

class BlockRanges {
 public:
  // A chunk has `chunk` blocks. Groups of `together` blocks, which divides `total`, stay in one range.
  BlockRanges(int64_t total, int workers, int64_t together, int64_t chunk);
  // Takes blocks [begin, end) for a worker; returns false if none are left.
  bool next(int64_t worker, int64_t& begin, int64_t& end);
  // Discards all remaining blocks.
  void stop();

 private:
  struct alignas(64) Range {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
    int64_t left() const { return end - next.load(std::memory_order_relaxed); }
  };
  bool take(Range& range, int64_t& begin, int64_t& end) const;

  std::vector<Range> ranges_;
  int64_t chunk_;
};

}  // namespace tile::cpu
