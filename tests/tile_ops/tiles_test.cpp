// Tests the tiles that products take.
#include "../../tile_ops/products/tiles.h"

#include "../../tile_ops/common/tuning.h"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>
#include <vector>

namespace tile {

inline void PrintTo(const TileSize& tile, std::ostream* out) {
  *out << tile.m << "x" << tile.n << "x" << tile.k;
}
inline void PrintTo(const Division& of, std::ostream* out) {
  PrintTo(of.tile, out);
  *out << " in " << of.parts << " parts of " << of.part_tiles;
}
inline void PrintTo(const std::optional<CopiedParts>& of, std::ostream* out) {
  if (of)
    *out << of->rows << " rows, " << of->columns << " columns";
  else
    *out << "none";
}

namespace {

constexpr int depth = 64;
TileSize large(int m, int n) { return {m, n, depth}; }

// These are the fastest tiles in benchmarks/results/tiles-h200.md, or within 5 % of it, where there is one
// part.
TEST(ProductTiles, OfWarpgroupInstructions) {
  const std::vector<std::tuple<ProductShape, TileSize, int64_t>> cases{
      {{.m = 8192, .n = 8192, .k = 8192}, large(128, 192), 1},
      {{.m = 4096, .n = 4096, .k = 4096}, large(128, 256), 1},
      {{.m = 4096, .n = 4096, .k = 512}, large(128, 256), 1},
      {{.m = 3072, .n = 3072, .k = 3072}, large(128, 192), 1},
      {{.m = 2048, .n = 2048, .k = 2048}, large(128, 256), 1},
      {{.m = 1024, .n = 1024, .k = 1024}, large(64, 128), 1},
      {{.m = 512, .n = 4096, .k = 4096}, large(128, 128), 1},
      {{.m = 256, .n = 4096, .k = 4096}, large(64, 128), 1},
      {{.m = 128, .n = 4096, .k = 4096}, large(64, 64), 1},
      {{.m = 4096, .n = 64, .k = 4096}, large(64, 64), 2},
      {{.m = 16, .n = 4096, .k = 4096}, large(64, 128), 4},
      {{.m = 8, .n = 4096, .k = 14336}, large(64, 128), 4},
      {{.m = 8, .n = 14336, .k = 4096}, large(64, 128), 1},
      {{.m = 256, .n = 256, .k = 65536}, large(128, 128), 32},
      {{.m = 64, .n = 64, .k = 64, .batches = 10000}, large(64, 64), 1},
  };
  for (const auto& [shape, tile, parts] : cases) {
    const Division division = group_division(shape, 64);
    EXPECT_EQ(division.tile, tile) << shape.m << "x" << shape.n << "x" << shape.k;
    EXPECT_EQ(division.parts, parts) << shape.m << "x" << shape.n << "x" << shape.k;
  }
}

TEST(ProductTiles, OfWarpgroupInstructionsWithTwoSums) {
  const auto tile = [](const ProductShape& shape) { return group_division(shape, 1).tile; };
  EXPECT_EQ(tile({.m = 8192, .n = 8192, .k = 8192, .two = true}), large(128, 128));
  EXPECT_EQ(tile({.m = 8192, .n = 8192, .k = 70000}), large(128, 128));
  EXPECT_EQ(tile({.m = 8192, .n = 8192, .k = 35000, .summed = 2}), large(128, 128));
  EXPECT_EQ(tile({.m = 64, .n = 64, .k = 64, .two = true}), large(64, 64));
}

// Tiles of 8-bit floats have as many bytes along k. Two sums leave room for two products of 128 columns.
TEST(ProductTiles, OfEightBits) {
  const auto division = [](const ProductShape& shape, bool promoted) {
    ProductShape of = shape;
    of.element = 1, of.promoted = promoted;
    return group_division(of, 64);
  };
  const std::vector<std::tuple<ProductShape, bool, TileSize, int64_t>> cases{
      {{.m = 8192, .n = 8192, .k = 8192}, true, {128, 192, 128}, 1},
      {{.m = 8192, .n = 8192, .k = 8192}, false, {128, 192, 128}, 1},
      // A product has one scale of its columns.
      {{.m = 8192, .n = 8192, .k = 8192, .blocks = true}, true, {128, 256, 128}, 1},
      {{.m = 8192, .n = 8192, .k = 8192, .blocks = true}, false, {128, 128, 128}, 1},
      {{.m = 4096, .n = 7168, .k = 16384}, true, {128, 256, 128}, 1},
      {{.m = 4096, .n = 4096, .k = 70000}, false, {128, 256, 128}, 1},
      {{.m = 512, .n = 4096, .k = 4096}, true, {128, 128, 128}, 1},
      {{.m = 128, .n = 4096, .k = 4096}, true, {64, 64, 128}, 1},
      {{.m = 16, .n = 7168, .k = 4096}, true, {64, 64, 128}, 1},
      {{.m = 16, .n = 4096, .k = 4096}, true, {64, 128, 128}, 4},
      {{.m = 1, .n = 64, .k = 64}, true, {64, 64, 128}, 1},
  };
  for (const auto& [shape, promoted, tile, parts] : cases) {
    EXPECT_EQ(division(shape, promoted).tile, tile) << shape.m << "x" << shape.n << "x" << shape.k;
    EXPECT_EQ(division(shape, promoted).parts, parts) << shape.m << "x" << shape.n << "x" << shape.k;
    EXPECT_FALSE(division(shape, promoted).chained);
  }
}

ProductShape of_tf32(int64_t m, int64_t n, int64_t k, bool two = false) {
  return {.m = m, .n = n, .k = k, .two = two, .element = 4, .rounded = true};
}

TEST(ProductTiles, OfTf32) {
  const auto tile = [](int m, int n) { return TileSize{m, n, 32}; };
  const std::vector<std::tuple<ProductShape, TileSize, int64_t>> of_groups{
      {of_tf32(8192, 8192, 8192), tile(128, 192), 1},       {of_tf32(4096, 4096, 4096), tile(128, 256), 1},
      {of_tf32(2048, 2048, 2048), tile(128, 256), 1},       {of_tf32(1024, 1024, 1024), tile(64, 128), 1},
      {of_tf32(128, 4096, 4096), tile(128, 128), 4},        {of_tf32(16, 4096, 4096), tile(64, 128), 4},
      {of_tf32(4096, 4096, 4096, true), tile(128, 128), 1},
  };
  for (const auto& [shape, size, parts] : of_groups) {
    const Division division = group_division(shape, 64);
    EXPECT_EQ(division.tile, size) << shape.m << "x" << shape.n << "x" << shape.k;
    EXPECT_EQ(division.parts, parts) << shape.m << "x" << shape.n << "x" << shape.k;
  }
  const std::vector<std::tuple<ProductShape, TileSize>> of_others{
      {of_tf32(4096, 4096, 4096), tile(128, 128)},
      {of_tf32(1024, 1024, 1024), tile(64, 64)},
      {of_tf32(8, 4096, 4096), tile(16, 128)},
      {of_tf32(4096, 4096, 4096, true), tile(128, 64)},
  };
  for (const auto& [shape, size] : of_others) EXPECT_EQ(gpu_division(shape, at::kFloat, 64).tile, size);
}

// Copies take the time of their bytes, and of a launch each.
TEST(ProductTiles, CopiesOfTf32) {
  constexpr int64_t bytes = tuning::product_chunk_bytes;
  constexpr Copies left{1, 0}, right{0, 1}, both{1, 1}, two{0, 2};
  using Parts = std::optional<CopiedParts>;
  const std::vector<std::tuple<ProductShape, Copies, Parts>> cases{
      {of_tf32(4096, 4096, 4096), right, CopiedParts{4096, 2048}},
      {of_tf32(4096, 4096, 4096), left, CopiedParts{2048, 4096}},
      {of_tf32(4096, 4096, 4096), both, {}},
      {of_tf32(8192, 8192, 8192), right, CopiedParts{8192, 1280}},
      {of_tf32(2048, 2048, 2048), right, CopiedParts{2048, 2048}},
      {of_tf32(2048, 2048, 2048), both, CopiedParts{2048, 2048}},
      {of_tf32(4096, 4096, 4096, true), two, CopiedParts{4096, 1024}},
      {of_tf32(1024, 1024, 1024), right, {}},
      {of_tf32(512, 512, 512), both, {}},
      {of_tf32(128, 4096, 4096), right, {}},
      {of_tf32(1, 4096, 4096), right, {}},
      {of_tf32(300, 300, 100000000), right, {}},  // not even a tile's columns fit
      {of_tf32(4096, 4096, 0), right, {}},
  };
  for (const auto& [shape, copies, parts] : cases)
    EXPECT_EQ(copied_parts(shape, copies, bytes), parts) << shape.m << "x" << shape.n << "x" << shape.k;
}

TEST(ProductTiles, WithoutElements) {
  EXPECT_EQ(group_division({.m = 0, .n = 128, .k = 64}, 64).tile, large(128, 256));
  EXPECT_EQ(group_division({.m = 128, .n = 128, .k = 0}, 64), (Division{.tile = large(64, 64)}));
  EXPECT_EQ(gpu_division({.m = 128, .n = 128, .k = 0}, at::kFloat, 64), (Division{.tile = {128, 128, 32}}));
}

TEST(ProductTiles, OfOtherInstructions) {
  const auto tile = [](const ProductShape& shape, at::ScalarType type) {
    return gpu_division(shape, type, 64).tile;
  };
  EXPECT_EQ(tile({.m = 4096, .n = 4096, .k = 4096}, at::kBFloat16), (TileSize{128, 128, 64}));
  EXPECT_EQ(tile({.m = 1024, .n = 1024, .k = 4096}, at::kBFloat16), (TileSize{64, 64, 64}));
  EXPECT_EQ(tile({.m = 8, .n = 4096, .k = 4096}, at::kHalf), (TileSize{16, 128, 64}));
}

TEST(ProductTiles, PartsOfOtherInstructions) {
  const auto parts = [](const ProductShape& shape, at::ScalarType type) {
    return gpu_division(shape, type, 64).parts;
  };
  EXPECT_EQ(parts({.m = 8, .n = 4096, .k = 4096}, at::kFloat), 8);
  EXPECT_EQ(parts({.m = 16, .n = 4096, .k = 4096}, at::kBFloat16), 4);
  EXPECT_EQ(parts({.m = 64, .n = 64, .k = 128}, at::kDouble), 1);
}

TEST(ProductTiles, OfFloat32) {
  const auto large = [](int m, int n) { return TileSize{m, n, 32}; };
  const std::vector<std::tuple<ProductShape, TileSize, int64_t>> cases{
      {{.m = 8192, .n = 8192, .k = 8192}, large(128, 128), 1},
      {{.m = 4096, .n = 4096, .k = 4096}, large(128, 128), 1},
      {{.m = 4096, .n = 4096, .k = 1000}, large(128, 128), 1},
      {{.m = 3072, .n = 3072, .k = 3072}, large(128, 64), 1},
      {{.m = 2048, .n = 2048, .k = 2048}, large(128, 128), 1},
      {{.m = 1024, .n = 1024, .k = 1024}, large(128, 128), 4},
      {{.m = 512, .n = 512, .k = 512}, large(64, 64), 4},
      {{.m = 64, .n = 4096, .k = 4096}, large(64, 64), 8},
      {{.m = 64, .n = 64, .k = 70001}, large(64, 64), 63},
      {{.m = 4096, .n = 4096, .k = 4096, .two = true}, large(128, 64), 1},
      {{.m = 128, .n = 128, .k = 64, .batches = 1000}, large(128, 128), 1},
  };
  for (const auto& [shape, tile, parts] : cases) {
    const Division division = gpu_division(shape, at::kFloat, 64);
    EXPECT_EQ(division.tile, tile) << shape.m << "x" << shape.n << "x" << shape.k;
    EXPECT_EQ(division.parts, parts) << shape.m << "x" << shape.n << "x" << shape.k;
  }
}

// Blocks of neighbouring rows share a tile where that takes no multiprocessor longer.
TEST(ProductTiles, Pairs) {
  const auto pays = [](const ProductShape& shape, bool straddles = false) {
    return pays_in_pairs(shape, group_division(shape, 64), straddles);
  };
  EXPECT_TRUE(pays({.m = 4096, .n = 4096, .k = 4104}, true));
  EXPECT_TRUE(pays({.m = 3000, .n = 5000, .k = 7000}, true));
  EXPECT_FALSE(pays({.m = 8192, .n = 8192, .k = 8192}));        // rows of whole lines
  EXPECT_FALSE(pays({.m = 128, .n = 65536, .k = 4104}, true));  // one row of tiles
  EXPECT_FALSE(
      pays({.m = 384, .n = 256 * 44, .k = 4104}, true));       // 132 blocks, of which pairs would make 176
  EXPECT_FALSE(pays({.m = 256, .n = 4096, .k = 4104}, true));  // few blocks
  EXPECT_FALSE(pays({.m = 0, .n = 128, .k = 72}, true));
}

// Parts cover the inner extent: none is empty, and none has more tiles than the others but the last, which
// may have fewer.
TEST(ProductTiles, PartsCoverTheInnerExtent) {
  for (int64_t k = 1; k < 70000; k = k * 3 / 2 + 1)
    for (const int64_t most : {1, 3, 8, 64}) {
      const Division division = group_division({.m = 8, .n = 64, .k = k}, most);
      const int64_t tiles = ceil_div(k, division.tile.k);
      EXPECT_LE(division.parts, most);
      EXPECT_GE(division.parts * division.part_tiles, tiles) << k;
      EXPECT_LT((division.parts - 1) * division.part_tiles, tiles) << k;
    }
}

// A block adds up 65536 products in one chain at most.
TEST(ProductTiles, PartsShortenChains) {
  EXPECT_FALSE(group_division({.m = 8192, .n = 8192, .k = 65536}, 1).chained);
  EXPECT_TRUE(group_division({.m = 8192, .n = 8192, .k = 65537}, 1).chained);
  EXPECT_FALSE(group_division({.m = 256, .n = 256, .k = 262144}, 64).chained);
}

TEST(ProductTiles, OfFewRows) {
  struct Case {
    ProductShape shape;
    at::ScalarType type;
    bool along_k, vectors, by_groups;
    int rows, bn, bk;
    int64_t parts;
  };
  const std::vector<Case> cases{
      {{.m = 1, .n = 512, .k = 2048}, at::kBFloat16, true, true, true, 1, 8, 512, 1},
      {{.m = 1, .n = 4096, .k = 4096}, at::kBFloat16, true, true, true, 1, 16, 256, 1},
      {{.m = 1, .n = 32000, .k = 2048}, at::kBFloat16, true, true, true, 1, 16, 256, 1},
      {{.m = 1, .n = 4096, .k = 4096}, at::kBFloat16, false, true, true, 1, 32, 128, 1},
      {{.m = 2, .n = 14336, .k = 4096}, at::kBFloat16, true, true, false, 2, 16, 256, 1},
      {{.m = 3, .n = 4, .k = 70001}, at::kFloat, false, true, false, 4, 8, 256, 46},
      {{.m = 4, .n = 4096, .k = 128}, at::kDouble, true, true, false, 4, 32, 64, 1},
      {{.m = 1, .n = 1, .k = 100000000}, at::kFloat, true, true, false, 1, 8, 512, 64},
      {{.m = 1, .n = 4095, .k = 4096}, at::kBFloat16, false, false, false, 1, 32, 64, 2},
      {{.m = 1, .n = 14336, .k = 4096, .two = true}, at::kHalf, true, true, false, 1, 16, 256, 1},
  };
  for (const Case& each : cases) {
    const ProductShape& shape = each.shape;
    const auto division =
        thin_division(shape, each.type, {each.along_k, each.vectors}, each.by_groups, shape.two ? 1 : 64);
    ASSERT_TRUE(division) << shape.m << "x" << shape.n << "x" << shape.k;
    EXPECT_EQ(division->rows, each.rows) << shape.m << "x" << shape.n << "x" << shape.k;
    EXPECT_EQ(division->of.tile, (TileSize{each.rows, each.bn, each.bk}))
        << shape.m << "x" << shape.n << "x" << shape.k;
    EXPECT_EQ(division->of.parts, each.parts) << shape.m << "x" << shape.n << "x" << shape.k;
    EXPECT_EQ(division->of.part_tiles % division->at_once, 0);
  }
}

TEST(ProductTiles, FewRowsHaveOtherKernelsWhereTheseAreFaster) {
  EXPECT_FALSE(thin_division({.m = 2, .n = 4096, .k = 4096}, at::kBFloat16, {true, true}, true, 64));
  EXPECT_FALSE(thin_division({.m = 2, .n = 4096, .k = 4096}, at::kBFloat16, {false, true}, true, 64));
  EXPECT_FALSE(thin_division({.m = 5, .n = 4096, .k = 4096}, at::kFloat, {true, true}, false, 64));
  EXPECT_FALSE(thin_division({.m = 1, .n = 4096, .k = 127}, at::kFloat, {true, true}, false, 64));
}

}  // namespace
}  // namespace tile
