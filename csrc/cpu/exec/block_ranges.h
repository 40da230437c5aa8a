// Which blocks of a launch a thread runs next: its own range of neighbours, which share operands that it
// keeps packed, and then what the others have left.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

namespace tile::cpu {

class BlockRanges {
 public:
  // `piece` blocks are given out at once; `together` of them, of which `total` is a multiple, stay in one
  // range.
  BlockRanges(int64_t total, int workers, int64_t together, int64_t piece);
  // Blocks [begin, end) for a worker; false where none are left.
  bool next(int64_t worker, int64_t& begin, int64_t& end);
  // Nobody gets any more.
  void stop();

 private:
  struct alignas(64) Range {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
    int64_t left() const { return end - next.load(std::memory_order_relaxed); }
  };
  bool take(Range& range, int64_t& begin, int64_t& end) const;

  std::vector<Range> ranges_;
  int64_t piece_;
};

}  // namespace tile::cpu
