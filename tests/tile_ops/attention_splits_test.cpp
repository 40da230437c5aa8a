// Tests how a gradient of attention is split: every head once, partial sums within their bytes, and enough
// blocks.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "../../tile_ops/attention/splits.h"

namespace tile::attention {
namespace {

constexpr int64_t mib = 1 << 20;

// Checks that every query head of every key head is in one split, and that those of a key head are
// consecutive: the first stores what the others add to.
void check_cover(const Heads& of, const std::vector<Split>& parts) {
  std::set<std::tuple<int64_t, int64_t, int64_t>> seen;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Split& part = parts[i];
    for (int64_t sample = part.sample; sample < part.sample + part.samples; ++sample)
      for (int64_t head = part.key_head; head < part.key_head + part.key_heads; ++head)
        for (int64_t member = part.first; member < part.first + part.count; ++member)
          EXPECT_TRUE(seen.emplace(sample, head, member).second);
    const bool goes_on = i && parts[i - 1].sample == part.sample && parts[i - 1].key_head == part.key_head;
    EXPECT_EQ(part.first, goes_on ? parts[i - 1].first + parts[i - 1].count : 0);
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), of.batch * of.key_heads * of.group);
}

// Returns the key heads and query heads of each split, for this number of rows, tiles of 128 keys and
// float32. Empty without partial sums.
std::vector<std::tuple<int64_t, int64_t>> cuts(int64_t batch, int64_t heads, int64_t key_heads, int64_t rows,
                                               int64_t keys, int64_t depth) {
  const Heads of{batch, key_heads, heads / key_heads, (keys + 127) / 128};
  const auto parts = splits_of_sums(of, rows * depth * 4);
  std::vector<std::tuple<int64_t, int64_t>> found;
  if (!parts) return found;
  check_cover(of, *parts);
  for (const Split& part : *parts) {
    EXPECT_LE(part.samples * part.key_heads * part.count * rows * depth * 4, 62 * mib);
    found.emplace_back(part.samples * part.key_heads, part.count);
  }
  return found;
}

using Cuts = std::vector<std::tuple<int64_t, int64_t>>;

TEST(AttentionParts, WholeGroups) {
  EXPECT_EQ(cuts(2, 16, 16, 4096, 4096, 64), (Cuts{{32, 1}}));
  EXPECT_EQ(cuts(64, 16, 16, 320, 320, 64), (Cuts{{512, 1}, {512, 1}}));
  EXPECT_EQ(cuts(3, 64, 32, 4096, 4096, 64), Cuts(6, {16, 2}));
  EXPECT_EQ(cuts(1, 66, 33, 4096, 4096, 64), (Cuts{{17, 2}, {16, 2}}));
  EXPECT_EQ(cuts(1, 4, 1, 16384, 300, 128), (Cuts{{1, 4}}));  // few blocks, but splitting would not add any
}

TEST(AttentionParts, GroupsAreCut) {
  EXPECT_EQ(cuts(1, 32, 8, 8192, 8192, 128), Cuts(4, {8, 1}));
  EXPECT_EQ(cuts(2, 4, 2, 100'000, 100'000, 128), Cuts(8, {1, 1}));
  EXPECT_EQ(cuts(1, 32, 1, 32768, 32768, 64), (Cuts{{1, 7}, {1, 7}, {1, 7}, {1, 7}, {1, 4}}));
  EXPECT_EQ(cuts(1, 64, 8, 4096, 8192, 128), (Cuts{{8, 3}, {8, 3}, {8, 2}}));
}

TEST(AttentionParts, NoSums) {
  EXPECT_EQ(cuts(1, 32, 1, 8192, 8192, 128), Cuts{});       // 64 blocks
  EXPECT_EQ(cuts(64, 16, 16, 4096, 77, 64), Cuts{});        // 62
  EXPECT_EQ(cuts(1, 8, 8, 130'000, 130'000, 128), Cuts{});  // 63.5 MiB
  EXPECT_EQ(cuts(1, 8, 8, 4096, 0, 128), Cuts{});
}

// The bytes are never exceeded; with fewer than 132 blocks, nothing is split.
TEST(AttentionParts, ManyShapes) {
  for (const int64_t batch : {1, 3, 64})
    for (const int64_t key_heads : {1, 2, 5, 8, 33})
      for (const int64_t group : {1, 2, 3, 4, 7, 8, 32, 71})
        for (const int64_t rows : {64, 320, 1024, 4160, 8192, 40'000, 126'976})
          for (const int64_t tiles : {1, 3, 8, 64, 500, 1024}) {
            const Heads of{batch, key_heads, group, tiles};
            const int64_t head_bytes = rows * 128 * 4;
            const auto parts = splits_of_sums(of, head_bytes);
            if (!parts) continue;
            check_cover(of, *parts);
            for (const Split& part : *parts)
              EXPECT_LE(part.samples * part.key_heads * part.count * head_bytes, 62 * mib);
            const Split& most = parts->front();
            if (parts->size() > 1) EXPECT_GE(most.samples * most.key_heads * tiles, 132);
          }
}

TEST(AttentionParts, NoHeads) {
  EXPECT_EQ(splits_of({0, 8, 1, 4}, 4096).size(), 0u);
  EXPECT_EQ(splits_of({2, 0, 0, 4}, 4096).size(), 0u);
  EXPECT_EQ(splits_of({2, 3, 0, 4}, 4096).size(), 1u);  // the gradients of keys without queries
  EXPECT_EQ(splits_of({2, 3, 2, 0}, 0).size(), 1u);
}

// Buffers that are not partial sums are as small as one head allows.
TEST(AttentionParts, LargeHeads) {
  const auto parts = splits_of({1, 2, 3, 64}, 63 * mib);
  check_cover({1, 2, 3, 64}, parts);
  EXPECT_EQ(parts.size(), 6u);
}

}  // namespace
}  // namespace tile::attention
