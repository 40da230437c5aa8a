// Tests layouts: every element exists, exactly once without replication, and changes of shape preserve
// elements.
#include "cuda/layout.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cuda/mma_plan.h"
#include "cuda/register_map.h"

namespace tile::cuda {
namespace {

constexpr int lanes = 32;

// Maps each element's row-major index to the threads and registers that hold it.
std::map<int64_t, std::set<std::pair<int, int>>> holders(const Layout& layout, int warps) {
  std::map<int64_t, std::set<std::pair<int, int>>> all;
  const Weights weights = row_major(layout.shape());
  for (int thread = 0; thread < warps * lanes; ++thread)
    for (int r = 0; r < layout.registers(); ++r) {
      int64_t place = 0;
      bool inside = true;
      for (int axis = 0; axis < layout.rank(); ++axis) {
        const int64_t at = layout.of_thread(axis, thread) + layout.of_register(axis, r);
        inside &= at < layout.shape()[static_cast<size_t>(axis)];
        place += at * weights[static_cast<size_t>(axis)];
      }
      if (inside) all[place].insert({thread, r});
    }
  return all;
}

void expect_complete(const Layout& layout, int warps) {
  const auto all = holders(layout, warps);
  EXPECT_EQ(static_cast<int64_t>(all.size()), element_count(layout.shape())) << describe(layout);
  int copies = 1;
  for (int bits = layout.replicas(warps * lanes); bits; bits &= bits - 1) copies *= 2;
  for (const auto& [place, at] : all) {
    EXPECT_EQ(static_cast<int>(at.size()), copies) << place << " of " << describe(layout);
    int owners = 0;
    for (const auto& [thread, r] : at) owners += (thread & layout.replicas(warps * lanes)) == 0;
    EXPECT_EQ(owners, 1) << place << " of " << describe(layout);
  }
}

const Shape shapes[] = {{1},      {2},      {7},       {32},       {100},       {1000},
                        {4096},   {1, 1},   {3, 5},    {32, 1024}, {64, 33},    {1024, 1},
                        {5, 320}, {8, 176}, {2, 3, 5}, {4, 8, 64}, {16, 1, 80}, {1, 7, 1, 9}};

TEST(Layout, BlockedHoldsEveryElement) {
  for (const Shape& shape : shapes)
    for (int warps : {1, 2, 8, 32})
      for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis)
        for (int vector : {1, 2, 4, 8})
          if (shape[static_cast<size_t>(axis)] % vector == 0) {
            const Layout layout = blocked(shape, axis, vector, warps);
            expect_complete(layout, warps);
            EXPECT_EQ(layout.vector_along(axis) % vector, 0);
          }
}

TEST(Layout, LanesOfAWarpAreNeighboursAlongTheAxis) {
  EXPECT_EQ(
      describe(blocked({32, 1024}, 1, 4, 8)),
      "4 registers along axis 1, 8 registers along axis 1 (128 apart), 4 registers along axis 0 (8 apart), "
      "32 lanes along axis 1 (4 apart), 8 warps along axis 0");
  EXPECT_EQ(describe(blocked({1, 1024}, 1, 4, 8)),
            "4 registers along axis 1, 32 lanes along axis 1 (4 apart), "
            "8 warps along axis 1 (128 apart)");
}

TEST(Layout, BlocksOfAClusterHoldEveryElementOnce) {
  for (const Shape& shape : {Shape{1, 40960}, Shape{64, 33}, Shape{512, 40}, Shape{16, 4096}, Shape{3, 5}})
    for (int blocks : {2, 4, 16}) {
      const Layout layout = blocked(shape, 1, 1, 2, blocks);
      std::map<int64_t, int> owners;  // by row-major index
      for (int block = 0; block < blocks; ++block)
        for (int thread = 0; thread < 2 * lanes; ++thread)
          for (int r = 0; r < layout.registers(); ++r) {
            const auto at = [&](int axis) {
              return layout.of_block(axis, block) + layout.of_thread(axis, thread) +
                     layout.of_register(axis, r);
            };
            if (at(0) >= shape[0] || at(1) >= shape[1]) continue;
            owners[at(0) * shape[1] + at(1)] +=
                !(block & layout.block_replicas(blocks)) && !(thread & layout.replicas(2 * lanes));
          }
      EXPECT_EQ(static_cast<int64_t>(owners.size()), element_count(shape)) << describe(layout);
      for (const auto& [place, count] : owners) EXPECT_EQ(count, 1) << place << " of " << describe(layout);
    }
}

TEST(Layout, ABlockOfAClusterHasNeighbours) {
  EXPECT_EQ(
      describe(blocked({1, 65536}, 1, 8, 8, 4)),
      "8 registers along axis 1, 8 registers along axis 1 (2048 apart), 32 lanes along axis 1 (8 apart), 8 "
      "warps along axis 1 (256 apart), 4 blocks along axis 1 (16384 apart)");
}

TEST(RegisterMap, ElementsOfOtherBlocksHaveNone) {
  const Layout dealt = blocked({1, 4096}, 1, 1, 2, 2), whole = blocked({1, 4096}, 1, 1, 2);
  const Weights places = row_major({1, 4096});
  EXPECT_TRUE(register_map(dealt, places, dealt, places, 64, 2));
  EXPECT_FALSE(register_map(dealt, places, whole, places, 64, 2));
}

// Compares a layout with the formula of a fragment: coordinates of register r of a lane of a warp.
void expect_fragment(const Layout& layout, int warps, std::pair<int, int> (*at)(int warp, int lane, int r)) {
  expect_complete(layout, warps);
  for (int thread = 0; thread < warps * lanes; ++thread)
    for (int r = 0; r < layout.registers(); ++r) {
      const auto [row, column] = at(thread / lanes, thread % lanes, r);
      EXPECT_EQ(layout.of_thread(0, thread) + layout.of_register(0, r), row) << thread << ' ' << r;
      EXPECT_EQ(layout.of_thread(1, thread) + layout.of_register(1, r), column) << thread << ' ' << r;
    }
}

// PTX ISA, fragments of mma.m16n8k16 for 16-bit types.
Layout fragment_a() {
  return Layout({16, 16}, {{Level::reg, 1, 2, 1, 1},
                           {Level::reg, 2, 2, 0, 8},
                           {Level::reg, 4, 2, 1, 8},
                           {Level::lane, 1, 4, 1, 2},
                           {Level::lane, 4, 8, 0, 1}});
}
Layout fragment_b() {
  return Layout({16, 8}, {{Level::reg, 1, 2, 0, 1},
                          {Level::reg, 2, 2, 0, 8},
                          {Level::lane, 1, 4, 0, 2},
                          {Level::lane, 4, 8, 1, 1}});
}
TEST(Fragments, OfMmaSync) {
  expect_fragment(fragment_a(), 1, [](int, int lane, int r) {
    return std::pair(lane / 4 + (r >> 1 & 1) * 8, lane % 4 * 2 + (r & 1) + (r >> 2) * 8);
  });
  expect_fragment(fragment_b(), 1, [](int, int lane, int r) {
    return std::pair(lane % 4 * 2 + (r & 1) + (r >> 1) * 8, lane / 4);
  });
  expect_fragment(accumulator_layout({16, 8}, {1, 1, 1, 1}), 1,
                  [](int, int lane, int r) { return std::pair(lane / 4 + r / 2 * 8, lane % 4 * 2 + r % 2); });
}

// ldmatrix gives lane l elements 2 (l % 4) and the next of row l / 4 of each 8 x 8 matrix, or of a column if
// transposed. Each matrix is a word, in the order of the addresses of groups of 8 lanes.
TEST(Fragments, OfLdmatrix) {
  const Layout matrices({4, 8, 8}, {{Level::reg, 1, 2, 2, 1},
                                    {Level::reg, 2, 4, 0, 1},
                                    {Level::lane, 1, 4, 2, 2},
                                    {Level::lane, 4, 8, 1, 1}});
  expect_complete(matrices, 1);
  // A: first the halves of rows, then those of columns. [columns, rows, 8, 8] -> [16, 16]
  const auto halves = matrices.reshaped({2, 2, 8, 8});
  ASSERT_TRUE(halves);
  EXPECT_EQ(halves->permuted({1, 2, 0, 3}).reshaped({16, 16}), fragment_a());
  // B, whose columns are rows in memory: two blocks of 8, each with the halves of k. [k, n, 8 of n, 8 of k]
  const Layout both = halves->permuted({1, 3, 0, 2}).reshaped({16, 16}).value();
  for (int r = 0; r < 4; ++r)
    for (int lane = 0; lane < lanes; ++lane) {
      EXPECT_EQ(both.of_thread(0, lane) + both.of_register(0, r),
                fragment_b().of_thread(0, lane) + fragment_b().of_register(0, r));
      EXPECT_EQ(both.of_thread(1, lane) + both.of_register(1, r),
                fragment_b().of_thread(1, lane) + fragment_b().of_register(1, r));
    }
}

// Four warps of 16 rows each; further warpgroups are a mode of the warp number too.
Layout wgmma_sums(int64_t n, int groups) {
  return Layout({64 * groups, n}, {{Level::reg, 1, 2, 1, 1},
                                   {Level::reg, 2, 2, 0, 8},
                                   {Level::reg, 4, static_cast<int>(n / 8), 1, 8},
                                   {Level::lane, 1, 4, 1, 2},
                                   {Level::lane, 4, 8, 0, 1},
                                   {Level::warp, 1, 4, 0, 16},
                                   {Level::warp, 4, groups, 0, 64}});
}
TEST(Fragments, OfWgmma) {
  for (int64_t n : {8, 64, 80, 96, 176, 256})
    for (int groups : {1, 2})
      expect_fragment(wgmma_sums(n, groups), 4 * groups, [](int warp, int lane, int r) {
        return std::pair(64 * (warp / 4) + 16 * (warp % 4) + lane / 4 + 8 * (r >> 1 & 1),
                         8 * (r >> 2) + 2 * (lane & 3) + (r & 1));
      });
}

TEST(Fragments, SumsAreALeftOperandAsTheyStand) {
  const Layout sums = accumulator_layout({16, 16}, {1, 1, 1, 2});
  EXPECT_EQ(sums, fragment_a());
  // Compares a warpgroup's elements, 16 columns at a time.
  const Layout group = wgmma_sums(64, 1);
  for (int step = 0; step < 4; ++step)
    for (int r = 0; r < 8; ++r)
      for (int thread = 0; thread < 128; ++thread)
        for (int axis : {0, 1})
          EXPECT_EQ(group.of_thread(axis, thread) + group.of_register(axis, step * 8 + r),
                    (axis ? step * 16 : thread / lanes * 16) + fragment_a().of_thread(axis, thread % lanes) +
                        fragment_a().of_register(axis, r));
}

TEST(Fragments, ReducedAndSpreadAgain) {
  const Layout sums = wgmma_sums(96, 1), rows = sums.without({1});
  EXPECT_EQ(rows.registers(), 2);
  EXPECT_EQ(rows.replicas(128), 3);  // the four lanes of a row
  const Layout spread = sums.collapsed({64, 1});
  const auto map = register_map(spread, {1, 0}, sums, {1, 0}, 128);
  ASSERT_TRUE(map);
  EXPECT_EQ(map_text(*map, sums), "return r / 2 % 2;");
}

TEST(Layout, SlicesKeepWhatIsLeft) {
  for (const Shape& shape : shapes)
    for (int warps : {1, 4}) {
      const Layout layout = blocked(shape, static_cast<int>(shape.size()) - 1, 1, warps);
      for (int64_t axis = 0; axis < layout.rank(); ++axis) expect_complete(layout.without({axis}), warps);
    }
}

TEST(Layout, PermutedAndBackIsTheSame) {
  const Layout layout = blocked({4, 8, 64}, 2, 4, 2);
  EXPECT_EQ(layout.permuted({2, 0, 1}).shape(), (Shape{64, 4, 8}));
  EXPECT_EQ(layout.permuted({2, 0, 1}).permuted({1, 2, 0}), layout);
}

TEST(Layout, ReshapedHoldsTheSamePlaces) {
  const std::pair<Shape, Shape> pairs[] = {{{32, 64}, {2048}},
                                           {{2048}, {32, 64}},
                                           {{16, 8, 4}, {128, 4}},
                                           {{64}, {1, 64, 1}},
                                           {{12, 32}, {12, 4, 8}}};
  for (const auto& [from, to] : pairs)
    for (int warps : {1, 4}) {
      const Layout layout = blocked(from, static_cast<int>(from.size()) - 1, 1, warps);
      if (layout.padded()) continue;
      const auto changed = layout.reshaped(to);
      ASSERT_TRUE(changed) << describe(layout);
      EXPECT_EQ(holders(*changed, warps), holders(layout, warps)) << describe(layout);
      const auto map = register_map(layout, row_major(from), *changed, row_major(to), warps * lanes);
      ASSERT_TRUE(map);
      for (size_t r = 0; r < map->size(); ++r) EXPECT_EQ((*map)[r], static_cast<int>(r));
    }
}

TEST(Layout, PaddingAndCutModesHaveNoOtherShape) {
  EXPECT_FALSE(blocked({3, 5}, 1, 1, 1).reshaped({15}));
  EXPECT_FALSE(blocked({6, 64}, 1, 1, 4).reshaped({2, 3, 64}));
}

TEST(RegisterMap, ARowIsRepeatedWithoutMoving) {
  const Layout tile = blocked({32, 1024}, 1, 4, 8), column = tile.collapsed({32, 1});
  const auto map = register_map(column, {1, 0}, tile, {1, 0}, 256);
  ASSERT_TRUE(map);
  EXPECT_EQ(map_text(*map, tile), "return r / 32;");
}

TEST(RegisterMap, ElementsOfOtherThreadsHaveNone) {
  const Layout rows = blocked({32, 32}, 1, 1, 4), columns = blocked({32, 32}, 0, 1, 4);
  EXPECT_FALSE(register_map(rows, row_major({32, 32}), columns, row_major({32, 32}), 128));
}

TEST(RegisterMap, PartsOfAMode) {
  EXPECT_EQ(map_text({0, 2, 1, 3}, blocked({4}, 0, 4, 1)), "return r % 2 * 2 + r / 2;");
  const Layout sums = wgmma_sums(256, 1);
  std::vector<int> panel, inside;
  for (int r = 0; r < sums.registers(); ++r) panel.push_back(r / 32), inside.push_back(r % 32);
  EXPECT_EQ(map_text(panel, sums), "return r / 32;");
  EXPECT_EQ(map_text(inside, sums), "return r % 32;");
}

TEST(RegisterMap, OtherMapsAreTables) {
  EXPECT_EQ(map_text({0, 1, 3, 2}, blocked({4}, 0, 4, 1)),
            "constexpr int to[] = {0, 1, 3, 2}; return to[r];");
}

}  // namespace
}  // namespace tile::cuda
