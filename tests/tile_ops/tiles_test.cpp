// Tests the tiles that products take.
#include "../../tile_ops/products/tiles.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace tile {

inline void PrintTo(const TileSize& tile, std::ostream* out) {
  *out << tile.m << "x" << tile.n << "x" << tile.k;
}

namespace {

constexpr int depth = 64;
TileSize large(int m, int n) { return {m, n, depth}; }

// These are the fastest tiles in benchmarks/results/tiles-h200.md, or within 5 % of it; for one row 64x128 is
// faster.
TEST(ProductTiles, OfWarpgroupInstructions) {
  const std::vector<std::pair<ProductShape, TileSize>> cases{
      {{.m = 8192, .n = 8192, .k = 8192}, large(128, 192)},
      {{.m = 4096, .n = 4096, .k = 4096}, large(128, 256)},
      {{.m = 4096, .n = 4096, .k = 512}, large(128, 256)},
      {{.m = 3072, .n = 3072, .k = 3072}, large(128, 192)},
      {{.m = 2048, .n = 2048, .k = 2048}, large(128, 256)},
      {{.m = 1024, .n = 1024, .k = 1024}, large(64, 128)},
      {{.m = 512, .n = 4096, .k = 4096}, large(128, 128)},
      {{.m = 256, .n = 4096, .k = 4096}, large(64, 128)},
      {{.m = 128, .n = 4096, .k = 4096}, large(64, 64)},
      {{.m = 4096, .n = 64, .k = 4096}, large(64, 64)},
      {{.m = 1, .n = 4096, .k = 4096}, large(64, 64)},
      {{.m = 64, .n = 64, .k = 64, .batches = 10000}, large(64, 64)},
  };
  for (const auto& [shape, tile] : cases)
    EXPECT_EQ(group_tile_size(shape, false), tile) << shape.m << "x" << shape.n << "x" << shape.k;
}

TEST(ProductTiles, OfWarpgroupInstructionsWithTwoSums) {
  EXPECT_EQ(group_tile_size({.m = 8192, .n = 8192, .k = 8192, .two = true}, false), large(128, 128));
  EXPECT_EQ(group_tile_size({.m = 8192, .n = 8192, .k = 70000}, true), large(128, 128));
  EXPECT_EQ(group_tile_size({.m = 64, .n = 64, .k = 64, .two = true}, false), large(64, 64));
}

TEST(ProductTiles, WithoutElements) {
  EXPECT_EQ(group_tile_size({.m = 0, .n = 128, .k = 64}, false), large(128, 256));
  EXPECT_EQ(group_tile_size({.m = 128, .n = 128, .k = 0}, false), large(64, 64));
}

TEST(ProductTiles, OfOtherInstructions) {
  EXPECT_EQ(gpu_tile_size({.m = 4096, .n = 4096, .k = 4096}, at::kBFloat16), (TileSize{128, 128, 64}));
  EXPECT_EQ(gpu_tile_size({.m = 1024, .n = 1024, .k = 4096}, at::kBFloat16), (TileSize{64, 64, 64}));
  EXPECT_EQ(gpu_tile_size({.m = 4096, .n = 4096, .k = 4096}, at::kFloat), (TileSize{64, 64, 32}));
  EXPECT_EQ(gpu_tile_size({.m = 8, .n = 4096, .k = 4096}, at::kHalf), (TileSize{16, 128, 64}));
}

}  // namespace
}  // namespace tile
