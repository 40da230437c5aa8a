// Tests that a mask's two bounds are joined in front of the loop: the text, and what kernels compute.
#include "cuda/async/join_bounds.h"

#include <gtest/gtest.h>

#include "cuda/async_cases.h"

namespace tile::cuda {
namespace {

// Sums up what is in front of column %n of the array and, in row r, not behind column r + %offset.
const std::string masked_sum = R"(kernel k(%a: array<f32,2>, %c: array<f32,2>, %offset: i32) {
  %i: i32 = bid {axis=0}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %16: i32 = constant {dtype=i32, value=16}
  %n: i32 = dim %a {axis=1}
  %tiles: i32 = cdiv %n, %16
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[8,16] = broadcast %z {shape=[8,16]}
  %eight: i32[8] = arange {dtype=i32, size=8}
  %rows: i32[8,1] = reshape %eight {shape=[8,1]}
  %offsets: i32[8,1] = broadcast %offset {shape=[8,1]}
  %last: i32[8,1] = add %rows, %offsets
  %sixteen: i32[16] = arange {dtype=i32, size=16}
  %columns: i32[1,16] = reshape %sixteen {shape=[1,16]}
  %sum: f32[8,16] = for %0, %tiles, %1, %zs (%j: i32, %before: f32[8,16]) {
    %first: i32 = mul %j, %16
    %firsts: i32[1,16] = broadcast %first {shape=[1,16]}
    %column: i32[1,16] = add %columns, %firsts
    %ns: i32[1,16] = broadcast %n {shape=[1,16]}
    %inside: bool[1,16] = lt %column, %ns
    %insides: bool[8,16] = broadcast %inside {shape=[8,16]}
    %own: i32[8,16] = broadcast %column {shape=[8,16]}
    %lasts: i32[8,16] = broadcast %last {shape=[8,16]}
    %seen: bool[8,16] = le %own, %lasts
    %mask: bool[8,16] = bitwise_and %insides, %seen
    %x: f32[8,16] = load %a, %i, %j {pad=1.0, shape=[8,16], steps=[8,16]}
    %y: f32[8,16] = where %mask, %x, %zs
    %next: f32[8,16] = add %before, %y
    yield %next
  }
  store %c, %sum, %i, %0 {steps=[8,16]}
}
)";

std::string joined(const std::string& text) {
  Function function = parse(text);
  join_bounds(function);
  verify(function, "join_bounds");
  return print(function, false);
}
bool changes(const std::string& text) { return joined(text) != print(parse(text), false); }

TEST(JoinBounds, ComparesOnceInTheLoop) {
  const std::string text = joined(masked_sum);
  const size_t loop = text.find(" = for ");
  const auto count = [&](std::string_view op, bool in_loop) {
    size_t found = 0;
    for (size_t at = text.find(op); at != std::string::npos; at = text.find(op, at + 1))
      found += (at > loop) == in_loop;
    return found;
  };
  EXPECT_EQ(count(" = minimum ", false), 1U);
  EXPECT_EQ(count(" = sub ", false), 1U);
  EXPECT_EQ(count(" = le ", true), 1U);
  for (const char* op : {" = lt ", " = bitwise_and ", " = minimum ", ": bool[1,16]"})
    EXPECT_EQ(count(op, true), 0U) << op;
}

TEST(JoinBounds, ComputesTheSame) {
  for (const std::string& text :
       {masked_sum, with(masked_sum, "le %own", "lt %own"), with(masked_sum, "lt %column", "le %column")})
    for (const int columns : {1, 15, 16, 17, 50})
      for (const int offset : {-20, -1, 0, 5, 16, 40, 100}) {
        const auto run = [&](const std::string& kernel) {
          Matrices matrices;
          matrices.add(8, columns, [](size_t at) { return static_cast<float>(at % 31) - 9; });
          matrices.add(8, 16, [](size_t) { return 0.0F; });
          return matrices.run(kernel, {1, 1, 1}, {scalar_argument(int32_t{offset})});
        };
        EXPECT_EQ(run(joined(text)), run(text)) << columns << ' ' << offset;
      }
}

TEST(JoinBounds, LeavesOtherMasks) {
  EXPECT_TRUE(changes(masked_sum));
  // Both bounds are open: no extent is wanted.
  EXPECT_TRUE(changes(with(with(masked_sum, "le %own", "lt %own"), "dim %a {axis=1}", "add %offset, %1")));
  // An open bound might be the least integer.
  EXPECT_FALSE(changes(with(masked_sum, "dim %a {axis=1}", "add %offset, %1")));
  // A bound changes in the loop.
  EXPECT_FALSE(changes(with(masked_sum, "broadcast %n {shape=[1,16]}", "broadcast %first {shape=[1,16]}")));
  // One is a lower bound.
  EXPECT_FALSE(changes(with(masked_sum, "le %own", "ge %own")));
  // They are of different numbers.
  const std::string other = "%other: i32[8,16] = broadcast %columns {shape=[8,16]}\n    %lasts: ";
  EXPECT_FALSE(changes(with(with(masked_sum, "%lasts: ", other), "le %own", "le %other")));
}

}  // namespace
}  // namespace tile::cuda
