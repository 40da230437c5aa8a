// Tests the pass that skews loops: which loops it takes, and what kernels compute.
#include "cuda/async/skew.h"

#include <gtest/gtest.h>

#include <array>

#include "cuda/async_cases.h"
#include "ir/print.h"
#include "ir/verify.h"

namespace tile::cuda {
namespace {

// The same where the tiles' numbers are in a list.
std::string two_loops_over_a_list(const std::string& dtype) {
  std::string text = with(two_loops(dtype), "%low: i32", "%list: array<i32,1>, %low: i32");
  for (const char* loop : {"m", "n"}) {
    const auto replace = [&](const char* from, const char* to) {
      text = with(text, with(from, "*", loop), with(to, "*", loop));
    };
    replace(
        "    %k*: ",
        "    %at*: array<i32,0> = index %list, %j*\n    %of*: i32 = load %at* {pad=0, shape=[], steps=[]}\n "
        "   %k*: ");
    replace("load %key, %j*", "load %key, %of*");
    replace("load %value, %j*", "load %value, %of*");
  }
  return text;
}

// All numbers are small integers: products of a few tiles have no rounding that another order could change.
void check_skewed(const std::string& before, bool has_list) {
  Function function = parse(before);
  skew_loops(function);
  verify(function, "skew_loops");
  const std::string text = print(function, false);
  EXPECT_NE(text, print(parse(before), false));
  const auto run = [&](const std::string& kernel, int low, int at, int high) {
    Matrices matrices;
    std::vector<int32_t> list{3, 0, 4, 1, 2};
    for (size_t i = 0; i < 4; ++i)
      matrices.add(i % 3 ? 300 : 200, 60,
                   [i](size_t at) { return static_cast<float>((at * 37 + i * 11) % 101 % 3) - 1; });
    std::vector<Argument> arguments;
    if (has_list) {
      ArrayArgument array;
      array.data = list.data(), array.dtype = DType::i32, array.rank = 1;
      array.sizes[0] = static_cast<int32_t>(list.size()), array.strides[0] = 1;
      arguments.emplace_back(array);
    }
    for (const int32_t bound : {low, at, high}) arguments.push_back(scalar_argument(bound));
    return matrices.run(kernel, {2, 1, 1}, arguments);
  };
  for (const auto& [low, at, high] : {std::array{0, 0, 0},
                                      {0, 0, 1},
                                      {0, 1, 1},
                                      {0, 0, 3},
                                      {0, 2, 3},
                                      {0, 5, 5},
                                      {1, 3, 5},
                                      {2, 0, 4},
                                      {2, -1, 2},
                                      {3, 1, 2}})
    EXPECT_EQ(run(text, low, at, high), run(before, low, at, high)) << low << ' ' << at << ' ' << high;
}
TEST(Skew, ComputesTheSame) { check_skewed(two_loops("f32"), false); }
TEST(Skew, LoadsTheNumberOfATileForBothParts) { check_skewed(two_loops_over_a_list("f32"), true); }

// Loops whose last product does not only add to a sum stay as they are. Both loops are changed.
TEST(Skew, LeavesOtherLoops) {
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = two_loops("bf16");
    for (const char* loop : {"m", "n"}) {
      EXPECT_NE(text.find(with(from, "*", loop)), std::string::npos) << from;
      text = with(text, with(from, "*", loop), with(to, "*", loop));
    }
    Function function = parse(text);
    const std::string before = print(function, false);
    skew_loops(function);
    return print(function, false) != before;
  };
  EXPECT_TRUE(changed("%g*: f32[128,64] = mul", "%g*: f32[128,64] = sub"));
  // The other ops read the sum.
  EXPECT_FALSE(
      changed("%e*: f32[128,64] = abs", "%read*: f32[128,64] = abs %b*\n    %e*: f32[128,64] = sub %read*,"));
  // The left operand is loaded: both products may start at once.
  EXPECT_FALSE(changed("%p*: bf16[128,64] = astype %e* {dtype=bf16}",
                       "%p*: bf16[128,64] = load %query, %j*, %0 {pad=0.0, shape=[128,64], steps=[128,64]}"));
  // The right operand is computed.
  EXPECT_FALSE(changed("mma %p*, %v*, %g*", "mma %p*, %t*, %g*"));
  // An op of the loop acts.
  EXPECT_FALSE(changed("yield %d*", "store %out, %p*, %i, %j* {steps=[128,64]}\n    yield %d*"));
}

// Loops that split_loops did not make of one, or between which something acts, are not skewed as one: the
// first iteration of the second would otherwise run with the body of the first.
TEST(Skew, TakesOnlyPartsOfOneLoopTogether) {
  const auto loops = [](const std::string& text) {
    Function function = parse(text);
    skew_loops(function);
    int count = 0;
    for (const auto& op : function.body().ops) count += op->is("for");
    return count;
  };
  const std::string text = two_loops("bf16");
  constexpr int together = 4, apart = 6;
  EXPECT_EQ(loops(text), together);
  EXPECT_EQ(loops(with(text, "{edge=1, split=1}", "{edge=1, split=2}")), apart);
  EXPECT_EQ(loops(with(with(text, "{edge=1, split=1}", ""), "{split=1}", "")), apart);
  EXPECT_EQ(loops(with(text, "  %xn:", "  store %out, %q, %i, %0 {steps=[128,64]}\n  %xn:")), apart);
}

}  // namespace
}  // namespace tile::cuda
