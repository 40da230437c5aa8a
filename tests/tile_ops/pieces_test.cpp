// Gradients of one matrix in pieces: every element is given to each of them once, whatever axes they have.
#include "../../tile_ops/pieces.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tile {
namespace {

using at::Tensor;

// The sum of `out` over the axes that it has not.
Tensor reduced(const Tensor& whole, const Tensor& out) { return at::sum_to(whole, out.sizes()); }

// Pieces of so many elements at most; returns how many were made.
int check(const Tensor& whole, int64_t elements, const std::vector<std::vector<int64_t>>& shapes,
          at::ScalarType type) {
  std::vector<PieceGradient> gradients;
  Tensor part;
  int pieces = 0;
  for (const auto& shape : shapes)
    gradients.push_back(
        {at::full(shape, std::nan(""), type), 0, [&part](const Piece&, const Tensor& out, bool accumulate) {
           const Tensor sum = reduced(part, out);
           out.copy_(accumulate ? out + sum : sum);
         }});
  in_pieces(whole.sizes(), piece_bytes / elements, gradients, [&](const Piece& piece) {
    part = piece.of(whole, whole.sizes());
    EXPECT_EQ(part.numel(), piece.elements());
    EXPECT_LE(part.numel(), elements);
    ++pieces;
  });
  for (const PieceGradient& gradient : gradients)
    EXPECT_TRUE(at::equal(gradient.out.to(at::kFloat), reduced(whole, gradient.out).to(type).to(at::kFloat)))
        << gradient.out.sizes();
  return pieces;
}

TEST(Pieces, EveryElementOnce) {
  const Tensor whole = at::randint(-4, 5, {3, 5, 7}, at::kFloat);
  const std::vector<std::vector<int64_t>> shapes = {{3, 5, 7}, {7}, {5, 1}, {3, 1, 1}, {1}, {3, 1, 7}};
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf}) {
    EXPECT_EQ(check(whole, 105, shapes, type), 1);
    EXPECT_EQ(check(whole, 104, shapes, type), 2);
    EXPECT_EQ(check(whole, 21, shapes, type), 6);  // of each sample three rows, then two
    EXPECT_EQ(check(whole, 7, shapes, type), 15);
    EXPECT_EQ(check(whole, 2, shapes, type), 60);
    EXPECT_EQ(check(whole, 1, shapes, type), 105);
  }
}

TEST(Pieces, NoElements) { EXPECT_EQ(check(at::zeros({0, 4}), 8, {{4}, {0, 4}}, at::kFloat), 1); }

// 16 bits whose sums would be large: pieces of their own axes, rows for one and columns for the other.
TEST(Pieces, LargeSumsAreNotMade) {
  const Tensor whole = at::ones({2, 4}).expand({2, 4});
  const int64_t large = sum_bytes / 4 / 2 + 1;
  const Tensor rows = at::empty({2, large}, at::kHalf), columns = at::empty({large, 4}, at::kHalf);
  std::vector<int> of_rows, of_columns;
  const auto note = [](std::vector<int>& extents, int64_t axis) {
    return [&extents, axis](const Piece& piece, const Tensor&, bool accumulate) {
      EXPECT_FALSE(accumulate);
      extents.push_back(static_cast<int>(piece.count[axis]));
    };
  };
  in_pieces(whole.sizes(), piece_bytes / 4,
            {{rows, -1, note(of_rows, 0)}, {columns, -2, note(of_columns, 1)}}, [](const Piece&) {});
  EXPECT_EQ(of_rows, (std::vector<int>{1, 1}));
  EXPECT_EQ(of_columns, (std::vector<int>{2, 2}));
}

}  // namespace
}  // namespace tile
