// Tests which loops are taken for an online softmax, and their gradients.
#include "gradients.h"

namespace tile {
namespace {

// Attention of rows of %q to those of %k. `row` and `rows`: the shapes of statistics, `wide`: of one as a
// tile; `end`: ops from %total, %top and %sum to %t, the tile that is stored.
std::string attention(std::string_view end, std::string_view exponential = "exp",
                      std::string_view inside = "") {
  return str(R"(kernel attention(%q: array<f64,2>, %k: array<f64,2>, %o: array<f64,2>) {
  %b: i32 = bid {axis=0}
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  %two: i32 = constant {dtype=i32, value=2}
  %size: i32 = dim %k {axis=0}
  %n: i32 = cdiv %size, %two
  %x: f64[3,4] = load %q, %b, %zero {pad=0.0, shape=[3,4], steps=[3,4]}
  %low: f64 = constant {dtype=f64, value=-inf}
  %nought: f64 = constant {dtype=f64, value=0.0}
  %top0: f64[3,1] = broadcast %low {shape=[3,1]}
  %sum0: f64[3,1] = broadcast %nought {shape=[3,1]}
  %acc0: f64[3,4] = broadcast %nought {shape=[3,4]}
  %s0: f64[3,2] = broadcast %nought {shape=[3,2]}
  %top: f64[3,1], %sum: f64[3,1], %acc: f64[3,4] = for %zero, %n, %one, %top0, %sum0, %acc0 (%i: i32, %t1: f64[3,1], %t2: f64[3,1], %t3: f64[3,4]) {
    %y: f64[2,4] = load %k, %i, %zero {pad=0.0, shape=[2,4], steps=[2,4]}
    %z: f64[4,2] = permute %y {axes=[1,0]}
    %s: f64[3,2] = mma %x, %z, %s0
    %m1: f64[3] = reduce_max %s {axes=[1]}
    %m: f64[3,1] = reshape %m1 {shape=[3,1]}
    %t4: f64[3,1] = maximum %t1, %m
    %t5: f64[3,2] = broadcast %t4 {shape=[3,2]}
    %t6: f64[3,2] = sub %s, %t5
    %p: f64[3,2] = )",
             exponential, R"( %t6
    %t7: f64[3,1] = sub %t1, %t4
    %less: f64[3,1] = )",
             exponential, R"( %t7
    %p1: f64[3] = reduce_sum %p {axes=[1]}
    %p2: f64[3,1] = reshape %p1 {shape=[3,1]}
    %u: f64[3,1] = mul %t2, %less
    %sum1: f64[3,1] = add %u, %p2
    %wide: f64[3,4] = broadcast %less {shape=[3,4]}
    %v: f64[3,4] = mul %t3, %wide
    %acc1: f64[3,4] = mma %p, %y, %v
)",
             inside, R"(
    yield %t4, %sum1, %acc1
  }
)",
             end, R"(
  store %o, %t, %b, %zero {steps=[3,4]}
}
)");
}

constexpr std::string_view normalized =
    "  %d: f64[3,4] = broadcast %sum {shape=[3,4]}\n  %t: f64[3,4] = div %acc, %d";
// log(sum) + maximum, which does not depend on the maximum, is added.
constexpr std::string_view with_logarithm =
    "  %d: f64[3,4] = broadcast %sum {shape=[3,4]}\n  %e: f64[3,4] = div %acc, %d\n  %f: f64[3,1] = log "
    "%sum\n"
    "  %g: f64[3,1] = add %f, %top\n  %h: f64[3,4] = broadcast %g {shape=[3,4]}\n  %t: f64[3,4] = mul %e, %h";
constexpr std::string_view with_other_base =
    "  %d: f64[3,4] = broadcast %sum {shape=[3,4]}\n  %e: f64[3,4] = div %acc, %d\n  %f: f64[3,1] = log2 "
    "%sum\n"
    "  %g: f64[3,1] = add %f, %top\n  %h: f64[3,4] = broadcast %g {shape=[3,4]}\n  %t: f64[3,4] = mul %e, %h";
constexpr std::string_view with_the_maximum =
    "  %d: f64[3,4] = broadcast %top {shape=[3,4]}\n  %t: f64[3,4] = mul %acc, %d";

std::vector<TestArray> arrays() {
  return {random_array({5, 4}, 1), random_array({6, 4}, 2), random_array({5, 4}, 3)};
}

TEST(Online, NothingIsKeptForEachIteration) {
  for (const std::string& text : {attention(normalized), attention(with_logarithm),
                                  attention(normalized, "exp2"), attention(with_other_base, "exp2")}) {
    EXPECT_TRUE(derived_kernel(text).scratch.empty()) << text;
    check_gradients(text, {2}, arrays());
  }
}

TEST(Online, ResultsThatChangeWithTheMaximumKeepValues) {
  for (const std::string& text : {attention(with_the_maximum), attention("  %t: f64[3,4] = tanh %acc"),
                                  attention(with_logarithm, "exp2"), attention(with_other_base)}) {
    EXPECT_FALSE(derived_kernel(text).scratch.empty()) << text;
    check_gradients(text, {2}, arrays());
  }
}

TEST(Online, StoresInTheLoopThatChangeWithTheMaximum) {
  std::string text = attention(normalized, "exp", "    store %r, %less, %b, %i {steps=[3,1]}\n");
  text.replace(text.find("%o: array<f64,2>)"), 17, "%o: array<f64,2>, %r: array<f64,2>)");
  EXPECT_FALSE(derived_kernel(text).scratch.empty());
}

TEST(Online, ItsSumsAreTransposed) {
  const Derived derived = derived_kernel(attention(normalized), -1, Sharing::owner);
  ASSERT_EQ(derived.transposed.size(), 1u);
  EXPECT_EQ(how_text(derived.gradients[1]), "stored by a kernel that loops over grid axis 0");
}

}  // namespace
}  // namespace tile
