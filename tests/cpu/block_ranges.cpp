// Tests the distribution of blocks to threads: each block once, a thread's own range first, and lines that
// stay together whole.
#include "cpu/exec/block_ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace tile::cpu {
namespace {

TEST(BlockRanges, OneWorkerGetsItsOwnAndThenTheOthers) {
  BlockRanges ranges(10, 3, 1, 2);
  std::vector<std::pair<int64_t, int64_t>> got;
  for (int64_t begin, end; ranges.next(1, begin, end);) got.push_back({begin, end});
  // Takes from the largest remaining range first: of [0, 3), [3, 6), [6, 10).
  const std::vector<std::pair<int64_t, int64_t>> want{{3, 5}, {5, 6}, {6, 8}, {0, 2}, {8, 10}, {2, 3}};
  EXPECT_EQ(got, want);
}

TEST(BlockRanges, LinesStayTogether) {
  for (int workers : {1, 2, 3, 7, 16}) {
    BlockRanges ranges(5 * 9, workers, 9, 9);
    std::vector<int64_t> begins;
    for (int64_t begin, end; ranges.next(workers - 1, begin, end);) {
      EXPECT_EQ(begin % 9, 0) << workers;
      EXPECT_EQ(end, begin + 9) << workers;
      begins.push_back(begin);
    }
    EXPECT_EQ(begins.size(), 5) << workers;
  }
}

TEST(BlockRanges, EachBlockOnceInAnyOrderOfWorkers) {
  std::mt19937 random(14);
  for (int64_t total : {1, 3, 64, 1000})
    for (int64_t chunk : {1, 3})
      for (int workers : {1, 4, 16}) {
        BlockRanges ranges(total, workers, 1, chunk);
        std::vector<int> runs(static_cast<size_t>(total));
        int64_t begin, end;
        while (ranges.next(static_cast<int64_t>(random() % static_cast<unsigned>(workers)), begin, end))
          for (int64_t i = begin; i < end; ++i) ++runs[static_cast<size_t>(i)];
        EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(total), 1)) << total << " on " << workers;
      }
}

TEST(BlockRanges, NothingComesAfterAStop) {
  BlockRanges ranges(100, 2, 1, 1);
  int64_t begin, end;
  EXPECT_TRUE(ranges.next(0, begin, end));
  ranges.stop();
  for (int worker : {0, 1}) EXPECT_FALSE(ranges.next(worker, begin, end));
}

}  // namespace
}  // namespace tile::cpu
