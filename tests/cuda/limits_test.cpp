// Tests the pass that merges two limits of a tile's columns.
#include "cuda/async/limits.h"

#include "cuda/async_cases.h"

namespace tile::cuda {
namespace {

// Keeps what lies in the array and is at most `more` elements behind the diagonal.
constexpr const char* mask = R"(kernel k(%x: array<f32,2>, %more: i32) {
  %j: i32 = bid {axis=0}
  %0: i32 = constant {dtype=i32, value=0}
  %n: i32 = dim %x {axis=1}
  %four: i32 = constant {dtype=i32, value=4}
  %at: i32[4] = arange {dtype=i32, size=4}
  %r: i32[4,1] = reshape %at {shape=[4,1]}
  %c0: i32[1,4] = reshape %at {shape=[1,4]}
  %first: i32 = mul %j, %four
  %firsts: i32[1,4] = broadcast %first {shape=[1,4]}
  %c: i32[1,4] = add %c0, %firsts
  %mores: i32[4,1] = broadcast %more {shape=[4,1]}
  %limit: i32[4,1] = add %r, %mores
  %ns: i32[1,4] = broadcast %n {shape=[1,4]}
  %in: bool[1,4] = lt %c, %ns
  %ins: bool[4,4] = broadcast %in {shape=[4,4]}
  %cs: i32[4,4] = broadcast %c {shape=[4,4]}
  %limits: i32[4,4] = broadcast %limit {shape=[4,4]}
  %le: bool[4,4] = le %cs, %limits
  %seen: bool[4,4] = bitwise_and %ins, %le
  %t: f32[4,4] = load %x, %0, %j {pad=-7.0, shape=[4,4], steps=[4,4]}
  %z: f32 = constant {dtype=f32, value=-1.0}
  %zs: f32[4,4] = broadcast %z {shape=[4,4]}
  %w: f32[4,4] = where %seen, %t, %zs
  store %x, %w, %0, %j {steps=[4,4]}
}
)";

std::string merged(const std::string& text) {
  Function function = parse(text);
  merge_limits(function);
  verify(function, "merge_limits");
  return print(function, false);
}
bool merges(const std::string& text) { return merged(text).find("minimum") != std::string::npos; }

TEST(Limits, AreMergedWhereRowsHaveOne) {
  EXPECT_TRUE(merges(mask));
  EXPECT_EQ(merged(mask).find("bitwise_and"), std::string::npos);
  EXPECT_TRUE(merges(with(mask, "bitwise_and %ins, %le", "bitwise_and %le, %ins")));
}

// A number that is no extent could be the least one, less than which is nothing.
TEST(Limits, OthersAreLeft) {
  EXPECT_FALSE(merges(with(mask, "%n: i32 = dim %x {axis=1}", "%n: i32 = mul %more, %more")));
  EXPECT_FALSE(merges(with(mask, "le %cs", "lt %cs")));
  EXPECT_FALSE(merges(with(mask, "bitwise_and", "bitwise_or")));
  EXPECT_FALSE(merges(with(mask, "%cs: i32[4,4] = broadcast %c ", "%cs: i32[4,4] = broadcast %c0 ")));
}

// Rows and columns then have layouts of their own.
TEST(Limits, RowsAndColumnsReadRangesOfTheirOwn) {
  const std::string after = merged(mask);
  const size_t first = after.find("= arange");
  EXPECT_NE(after.find("= arange", first + 1), std::string::npos);
}

TEST(Limits, TheMaskIsTheSame) {
  const auto run = [](const std::string& kernel, int more) {
    Matrices matrices;
    matrices.add(4, 10, [](size_t at) { return static_cast<float>(at); });
    return matrices.run(kernel, {3, 1, 1}, {scalar_argument(int32_t{more})});
  };
  const std::string after = merged(mask);
  for (const int more : {-2000000000, -5, -4, -1, 0, 1, 3, 6, 7, 2000000000})
    EXPECT_EQ(run(after, more), run(mask, more)) << more;
  EXPECT_EQ(run(after, 1)[13], -1.0F);
  EXPECT_EQ(run(after, 1)[12], 12.0F);
}

}  // namespace
}  // namespace tile::cuda
