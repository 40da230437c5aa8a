// Divides blocks into ranges and takes chunks of them.
#include "cpu/exec/block_ranges.h"

#include <algorithm>

namespace tile::cpu {

BlockRanges::BlockRanges(int64_t total, int workers, int64_t together, int64_t chunk)
    : ranges_(static_cast<size_t>(workers)), chunk_(chunk) {
  const int64_t groups = total / together;
  for (int64_t i = 0; i < workers; ++i) {
    ranges_[static_cast<size_t>(i)].next = groups * i / workers * together;
    ranges_[static_cast<size_t>(i)].end = groups * (i + 1) / workers * together;
  }
}

bool BlockRanges::take(Range& range, int64_t& begin, int64_t& end) const {
  if (range.left() <= 0) return false;
  begin = range.next.fetch_add(chunk_);
  end = std::min(begin + chunk_, range.end);
  return begin < range.end;
}

bool BlockRanges::next(int64_t worker, int64_t& begin, int64_t& end) {
  if (take(ranges_[static_cast<size_t>(worker)], begin, end)) return true;
  while (true) {
    Range& most = *std::max_element(ranges_.begin(), ranges_.end(),
                                    [](const Range& a, const Range& b) { return a.left() < b.left(); });
    if (take(most, begin, end)) return true;
    if (most.left() <= 0) return false;
  }
}

void BlockRanges::stop() {
  for (Range& range : ranges_) range.next = range.end;
}

}  // namespace tile::cpu
