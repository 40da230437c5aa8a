// Tests the pass that takes a kernel's ops out of the branch around them.
#include "cuda/async/guard.h"

#include <gtest/gtest.h>

#include "ir/print.h"
#include "ir/verify.h"

namespace tile::cuda {
namespace {

std::string after(const std::string& text, bool expected) {
  Function function = parse(text);
  EXPECT_EQ(leave_instead_of_branch(function), expected);
  verify(function, "leave_instead_of_branch");
  const std::string printed = print(function, false);
  EXPECT_EQ(print(parse(printed), false), printed);
  return printed;
}

TEST(Guard, BecomesAnEarlyEnd) {
  EXPECT_EQ(after(R"(kernel k(%x: array<f32,1>, %n: i32) {
  %i: i32 = bid {axis=0}
  %c: bool = lt %i, %n
  if %c () {
    %v: f32[8] = load %x, %i {pad=0.0, shape=[8], steps=[8]}
    store %x, %v, %i {steps=[8]}
    yield
  } () {
    yield
  }
}
)",
                  true),
            R"(kernel k(%0: array<f32,1>, %1: i32) {
  %2: i32 = bid {axis=0}
  %3: bool = lt %2, %1
  leave_unless %3
  %4: f32[8] = load %0, %2 {pad=0.0, shape=[8], steps=[8]}
  store %0, %4, %2 {steps=[8]}
}
)");
}

TEST(Guard, StaysWhereOtherOpsFollowOrTheOtherBranchActs) {
  const std::string head = R"(kernel k(%x: array<f32,1>, %n: i32) {
  %i: i32 = bid {axis=0}
  %c: bool = lt %i, %n
  %v: f32[8] = load %x, %i {pad=0.0, shape=[8], steps=[8]}
)",
                    store = "store %x, %v, %i {steps=[8]}\n";
  after(head + "if %c () {\n" + store + "yield\n} () {\nyield\n}\n" + store + "}\n", false);
  after(head + "if %c () {\n" + store + "yield\n} () {\n" + store + "yield\n}\n}\n", false);
  after(head + "}\n", false);
}

}  // namespace
}  // namespace tile::cuda
