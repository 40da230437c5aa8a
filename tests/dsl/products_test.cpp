// Tests batches of matrix products in the language.
#include <gtest/gtest.h>

#include <regex>

#include "dsl/tracer.h"
#include "error_text.h"
#include "ir/print.h"
#include "tile.h"

namespace tile {
namespace {

std::string text_of(const std::function<Tile()>& body) {
  Tracer tracer("kernel");
  return str(body().value()->type);
}
std::string error_in(const std::function<Tile()>& body) {
  return std::regex_replace(error_of([&] { text_of(body); }), std::regex(R"(products_test\.cpp:\d+)"),
                            "here");
}

TEST(Products, AMatrixOrABatchOfOneServesAll) {
  const auto product = [](Shape x, Shape y, Shape acc) {
    return text_of([&] { return mma(zeros(x, f16), zeros(y, f16), zeros(acc, f32)); });
  };
  EXPECT_EQ(product({4, 8}, {8, 2}, {4, 2}), "f32[4,2]");
  EXPECT_EQ(product({3, 4, 8}, {3, 8, 2}, {3, 4, 2}), "f32[3,4,2]");
  EXPECT_EQ(product({4, 8}, {3, 8, 2}, {3, 4, 2}), "f32[3,4,2]");
  EXPECT_EQ(product({1, 4, 8}, {8, 2}, {3, 4, 2}), "f32[3,4,2]");
}

TEST(Products, ScalesToo) {
  EXPECT_EQ(text_of([] {
              return mma_scaled(zeros({4, 8}, f8e4m3), zeros({1, 4, 2}, u8), zeros({3, 8, 2}, f8e5m2),
                                zeros({2, 2}, u8), zeros({3, 4, 2}, f32));
            }),
            "f32[3,4,2]");
}

TEST(Products, BatchesThatDiffer) {
  EXPECT_EQ(error_in([] {
              return mma(zeros({2, 4, 8}, f16), zeros({8, 2}, f16), zeros({3, 4, 2}, f32));
            }),
            "here: mma: the accumulator is f32[3,4,2] but the product of f16[2,4,8] and f16[3,8,2] has "
            "shape [2,4,2]");
}

}  // namespace
}  // namespace tile
