// Tests which values are only used after rounding to 16 bits.
#include "ir/precision.h"

#include <gtest/gtest.h>

#include "ir/print.h"
#include "ir/walk.h"
#include "support/text.h"

namespace tile {
namespace {

// Returns whether %e is, in a kernel that continues with `rest`.
bool approximate(std::string_view rest) {
  const Function function = parse(str(R"(kernel k(%a: array<f32,1>, %h: array<bf16,1>, %f: array<f32,1>) {
  %i: i32 = bid {axis=0}
  %t: f32[64] = load %a, %i {pad=0.0, shape=[64], steps=[64]}
  %e: f32[64] = exp %t
)",
                                      rest, "}"));
  const Precision precision(function);
  bool found = false;
  walk(function.body(), [&](const Op& op) { found |= op.is("exp") && precision.approximate(op.results[0]); });
  return found;
}
constexpr std::string_view rounded =
    "  %r: bf16[64] = astype %e {dtype=bf16}\n  store %h, %r, %i {steps=[64]}\n";

TEST(Precision, OfWhatIsRounded) {
  EXPECT_TRUE(approximate(rounded));
  EXPECT_TRUE(approximate(R"(  %m: f32[64] = mul %e, %t
  %r: bf16[64] = astype %m {dtype=bf16}
  store %h, %r, %i {steps=[64]}
)"));
}

TEST(Precision, ExactWhereAnythingSeesMore) {
  EXPECT_FALSE(approximate("  store %f, %e, %i {steps=[64]}\n"));
  EXPECT_FALSE(approximate(str(rounded, "  store %f, %e, %i {steps=[64]}\n")));
  // A discontinuity turns a small error into a large one.
  EXPECT_FALSE(approximate(R"(  %m: f32[64] = floor %e
  %r: bf16[64] = astype %m {dtype=bf16}
  store %h, %r, %i {steps=[64]}
)"));
}

}  // namespace
}  // namespace tile
