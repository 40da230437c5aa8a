// Tests gradients of one matrix in chunks: each gets every element once, whatever axes it has.
#include "../../tile_ops/common/chunks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../../tile_ops/common/tuning.h"

namespace tile {
namespace {

using at::Tensor;

// Returns the sum over the axes that `out` lacks.
Tensor reduced(const Tensor& whole, const Tensor& out) { return at::sum_to(whole, out.sizes()); }

// Checks chunks of at most this many elements; returns their number.
int check(const Tensor& whole, int64_t elements, const std::vector<std::vector<int64_t>>& shapes,
          at::ScalarType type) {
  std::vector<ChunkGradient> gradients;
  Tensor part;
  int chunks = 0;
  for (const auto& shape : shapes)
    gradients.push_back(
        {at::full(shape, std::nan(""), type), 0, [&part](const Chunk&, const Tensor& out, bool accumulate) {
           const Tensor sum = reduced(part, out);
           out.copy_(accumulate ? out + sum : sum);
         }});
  in_chunks(whole.sizes(), tuning::product_chunk_bytes / elements, gradients, [&](const Chunk& chunk) {
    part = chunk.of(whole, whole.sizes());
    EXPECT_EQ(part.numel(), chunk.elements());
    EXPECT_LE(part.numel(), elements);
    ++chunks;
  });
  for (const ChunkGradient& gradient : gradients)
    EXPECT_TRUE(at::equal(gradient.out.to(at::kFloat), reduced(whole, gradient.out).to(type).to(at::kFloat)))
        << gradient.out.sizes();
  return chunks;
}

TEST(Chunks, EveryElementOnce) {
  const Tensor whole = at::randint(-4, 5, {3, 5, 7}, at::kFloat);
  const std::vector<std::vector<int64_t>> shapes = {{3, 5, 7}, {7}, {5, 1}, {3, 1, 1}, {1}, {3, 1, 7}};
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf}) {
    EXPECT_EQ(check(whole, 105, shapes, type), 1);
    EXPECT_EQ(check(whole, 104, shapes, type), 2);
    EXPECT_EQ(check(whole, 21, shapes, type), 6);  // three rows of each sample, then two
    EXPECT_EQ(check(whole, 7, shapes, type), 15);
    EXPECT_EQ(check(whole, 2, shapes, type), 60);
    EXPECT_EQ(check(whole, 1, shapes, type), 105);
  }
}

TEST(Chunks, NoElements) { EXPECT_EQ(check(at::zeros({0, 4}), 8, {{4}, {0, 4}}, at::kFloat), 1); }

// 16-bit gradients whose sums would be large get separate chunks: rows for one and columns for the other.
TEST(Chunks, LargeSumsAreNotMade) {
  const Tensor whole = at::ones({2, 4}).expand({2, 4});
  const int64_t large = tuning::product_sum_bytes / 4 / 2 + 1;
  const Tensor rows = at::empty({2, large}, at::kHalf), columns = at::empty({large, 4}, at::kHalf);
  std::vector<int> of_rows, of_columns;
  const auto note = [](std::vector<int>& extents, int64_t axis) {
    return [&extents, axis](const Chunk& chunk, const Tensor&, bool accumulate) {
      EXPECT_FALSE(accumulate);
      extents.push_back(static_cast<int>(chunk.count[axis]));
    };
  };
  in_chunks(whole.sizes(), tuning::product_chunk_bytes / 4,
            {{rows, -1, note(of_rows, 0)}, {columns, -2, note(of_columns, 1)}}, [](const Chunk&) {});
  EXPECT_EQ(of_rows, (std::vector<int>{1, 1}));
  EXPECT_EQ(of_columns, (std::vector<int>{2, 2}));
}

// The first gradient's chunks may be larger while the memory of the others holds something else.
TEST(Chunks, MemoryOfLaterGradients) {
  const Tensor whole = at::ones({2, 4}).expand({2, 4});
  const int64_t large = tuning::product_sum_bytes / 4 / 2 + 1;
  const Tensor rows = at::empty({2, large}, at::kHalf), columns = at::empty({large, 4}, at::kHalf);
  std::vector<std::string> order;
  const auto note = [&](const char* name) {
    return [&order, name](const Chunk& chunk, const Tensor&, bool) {
      order.push_back(name + std::to_string(chunk.elements()));
    };
  };
  const ChunkElements most = [&](const std::vector<const ChunkGradient*>& later) {
    return later.size() == 1 && later[0]->out.is_same(rows) ? 6 : 4;
  };
  in_chunks(whole.sizes(), most, {{columns, -2, note("columns ")}, {rows, -1, note("rows ")}},
            [](const Chunk&) {});
  EXPECT_EQ(order, (std::vector<std::string>{"columns 6", "columns 2", "rows 4", "rows 4"}));
}

}  // namespace
}  // namespace tile
