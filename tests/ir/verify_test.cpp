// Tests the verifier's findings in invalid functions, and their texts.
#include "ir/verify.h"

#include <gtest/gtest.h>

#include "ir/build.h"
#include "ir/print.h"

namespace tile {
namespace {

constexpr std::string_view prefix = "internal error after a pass, please report it: ";

std::string verdict(const Function& function) {
  try {
    verify(function, "a pass");
  } catch (const Error& error) {
    std::string text = error.what();
    size_t at = text.find(prefix);
    return at == std::string::npos ? text : text.erase(at, prefix.size());
  }
  return "fine";
}
std::string parse_error(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "fine";
}

Function sample() {
  return parse(R"(kernel k(%0: i32, %1: bool) {
  %2: i32 = constant {dtype=i32, value=4}  // k.cpp:2
  %3: i32[8] = broadcast %2 {shape=[8]}  // k.cpp:3
  %4: i32[8] = for %0, %2, %2, %3 (%5: i32, %6: i32[8]) {  // k.cpp:4
    yield %6  // k.cpp:5
  }
})");
}

TEST(Verify, AcceptsASoundFunction) { EXPECT_EQ(verdict(sample()), "fine"); }

TEST(Verify, OperandsMustBeDefinedAbove) {
  Function function = sample();
  auto& ops = function.body().ops;
  std::swap(ops[0], ops[1]);
  EXPECT_EQ(verdict(function), "k.cpp:3: broadcast: an operand of type i32 is not defined above it");
}

TEST(Verify, ValuesOfARegionStayInside) {
  Function function = sample();
  Op& loop = *function.body().ops[2];
  Builder build(function, function.body());
  build.broadcast(loop.region().arguments[0], {2});
  EXPECT_EQ(verdict(function), "broadcast: an operand of type i32 is not defined above it");
}

TEST(Verify, OwnershipOfResultsAndArguments) {
  Function function = sample();
  function.body().ops[1]->results[0]->owner = nullptr;
  EXPECT_EQ(verdict(function), "k.cpp:3: broadcast: a result is owned elsewhere");
  function = sample();
  function.body().ops[2]->region().arguments[0]->owner = &function.body();
  EXPECT_EQ(verdict(function), "k.cpp:4: for: a block argument is owned elsewhere");
  function = sample();
  function.body().ops[1]->parent = nullptr;
  EXPECT_EQ(verdict(function), "k.cpp:3: broadcast: its parent is not the block that contains it");
}

TEST(Verify, RegionsEndInOneTerminator) {
  Function function = sample();
  function.body().ops[2]->region().ops.clear();
  EXPECT_EQ(verdict(function), "k.cpp:4: for: a region must end in yield, break or continue");
  function = sample();
  Builder build(function, function.body().ops[2]->region());
  build.constant(DType::i32, 1);
  EXPECT_EQ(verdict(function), "k.cpp:5: yield: it is a terminator but not the last op of its region");
}

TEST(Verify, TypesAreThoseOfTheTypeRule) {
  Function function = sample();
  function.body().ops[1]->results[0]->type.shape = {9};
  EXPECT_EQ(verdict(function), "k.cpp:3: broadcast: result 0 is i32[9]; its type rule gives i32[8]");
  function = sample();
  function.body().ops[2]->operands.pop_back();
  EXPECT_EQ(verdict(function),
            "k.cpp:4: for: k.cpp:4: for: its region takes (i32, i32[8]) but is given (i32)");
}

TEST(Verify, LoopsAndBranches) {
  const auto in_kernel = [](std::string_view ops) {
    return parse_error("kernel k(%0: i32, %1: bool, %2: i64) {\n  " + std::string(ops) + "\n}");
  };
  EXPECT_EQ(in_kernel("for %0, %0 (%3: i32) {\n    yield\n  }"),
            "tile text 2:3: for: takes low, high, step and initial values");
  EXPECT_EQ(in_kernel("for %0, %2, %0 (%3: i32) {\n    yield\n  }"),
            "tile text 2:3: for: its bounds must be integer scalars of one dtype, got i32, i64 and i32");
  EXPECT_EQ(in_kernel("%4: i32 = for %0, %0, %0, %0 (%3: i32, %5: i32) {\n    yield %1\n  }"),
            "tile text 2:3: for: its yield gives (bool) but (i32) is carried");
  EXPECT_EQ(in_kernel("%4: i32 = loop %0 (%3: i32) {\n    yield %3\n  }"),
            "tile text 2:3: loop: its region must end in continue or break");
  EXPECT_EQ(in_kernel("if %0 () {\n    yield\n  } () {\n    yield\n  }"),
            "tile text 2:3: if: its condition must be a bool scalar, got i32");
  EXPECT_EQ(in_kernel("if %1 () {\n    yield\n  }"), "tile text 2:3: if: takes 2 regions, got 1");
  EXPECT_EQ(in_kernel("%4: i32[8] = broadcast %0 {shape=[,]}"),
            "tile text 2:37: expected a number, found ','");
}

TEST(Verify, JumpsBelongToALoop) {
  EXPECT_EQ(parse_error("kernel k(%0: i32) {\n  for %0, %0, %0 (%1: i32) {\n    break\n  }\n}"),
            "tile text 3:5: break: it is outside of any loop, or an op other than if is in between");
  EXPECT_EQ(
      parse_error(
          "kernel k(%0: i32, %1: bool) {\n  %2: i32 = loop %0 (%3: i32) {\n    if %1 () {\n      break\n"
          "    } () {\n      yield\n    }\n    continue %0\n  }\n}"),
      "tile text 4:7: break: it gives 0 values; its loop carries 1");
  EXPECT_EQ(parse_error("kernel k(%0: i32, %1: bool) {\n  %2: i32 = loop %0 (%3: i32) {\n    if %1 () {\n"
                        "      continue %1\n    } () {\n      yield\n    }\n    break %0\n  }\n}"),
            "tile text 4:7: continue: value 0 is bool; its loop carries i32");
}

}  // namespace
}  // namespace tile
