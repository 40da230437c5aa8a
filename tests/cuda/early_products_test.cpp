// Tests where products of a loop begin that computes their operands, and of the rows that it loads.
#include "cuda/async/early_products.h"

#include <gtest/gtest.h>

#include "cuda/async/plan.h"
#include "cuda/async/roles.h"
#include "cuda/async_cases.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

// Two products of a block's keys with all queries, and two sums to which what is computed from them is added.
std::string gradients(const std::string& dtype) {
  return with(
      R"(kernel k(%query: array<TYPE,2>, %key: array<TYPE,2>, %row: array<f32,2>, %out: array<TYPE,2>) {
  %i: i32 = bid {axis=0}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %n: i32 = constant {dtype=i32, value=3}
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[128,64] = broadcast %z {shape=[128,64]}
  %own: array<f32,1> = index %row, %i
  %k: TYPE[128,64] = load %key, %i, %0 {pad=0.0, shape=[128,64], steps=[128,64]}
  %a: f32[128,64], %b: f32[128,64] = for %0, %n, %1, %zs, %zs (%j: i32, %x: f32[128,64], %y: f32[128,64]) {
    %q: TYPE[64,64] = load %query, %j, %0 {pad=0.0, shape=[64,64], steps=[64,64]}
    %qt: TYPE[64,64] = permute %q {axes=[1,0]}
    %s: f32[128,64] = mma %k, %qt, %zs
    %r: f32[64] = load %own, %j {pad=0.0, shape=[64], steps=[64]}
    %r1: f32[1,64] = reshape %r {shape=[1,64]}
    %rs: f32[128,64] = broadcast %r1 {shape=[128,64]}
    %e: f32[128,64] = add %s, %rs
    %p: TYPE[128,64] = astype %e {dtype=TYPE}
    %next: i32 = add %j, %1
    %g: TYPE[64,64] = load %query, %next, %1 {pad=0.0, shape=[64,64], steps=[64,64]}
    %gt: TYPE[64,64] = permute %g {axes=[1,0]}
    %d: f32[128,64] = mma %k, %gt, %zs
    %f: f32[128,64] = mul %d, %e
    %h: TYPE[128,64] = astype %f {dtype=TYPE}
    %sh: f32[128,64] = mma %h, %q, %x
    %sp: f32[128,64] = mma %p, %g, %y
    yield %sh, %sp
  }
  %sum: f32[128,64] = add %a, %b
  %w: TYPE[128,64] = astype %sum {dtype=TYPE}
  store %out, %w, %i, %0 {steps=[128,64]}
}
)",
      "TYPE", dtype);
}

// The names of the loop's ops, without those of scalars.
std::string order_of(const Function& function) {
  std::string text;
  walk(function.body(), [&](const Op& op) {
    if (!op.parent->parent || op.is("yield") || op.is("reshape") || op.is("broadcast") ||
        op.results[0]->type.is_scalar())
      return;
    text += (text.empty() ? "" : ", ") + std::string(op.name());
  });
  return text;
}

TEST(EarlyProducts, BeginBehindTheirOperands) {
  Function function = parse(gradients("bf16"));
  EXPECT_EQ(order_of(function),
            "load, permute, mma, load, add, astype, load, permute, mma, mul, astype, mma, mma");
  begin_products_early(function);
  verify(function, "begin_products_early");
  EXPECT_EQ(order_of(function),
            "load, permute, mma, load, permute, mma, load, add, astype, mma, mul, astype, mma");
}

// Two products whose sums the loop computes with, and no operand.
TEST(EarlyProducts, BeginTogether) {
  const std::string text =
      with(with(gradients("bf16"), "    %h: bf16[128,64] = astype %f {dtype=bf16}\n", ""),
           "    %sh: f32[128,64] = mma %h, %q, %x\n    %sp: f32[128,64] = mma %p, %g, %y\n",
           "    %sh: f32[128,64] = add %f, %x\n    %sp: f32[128,64] = add %e, %y\n");
  Function function = parse(with(text, "    %p: bf16[128,64] = astype %e {dtype=bf16}\n", ""));
  EXPECT_EQ(order_of(function), "load, permute, mma, load, add, load, permute, mma, mul, add, add");
  begin_products_early(function);
  verify(function, "begin_products_early");
  EXPECT_EQ(order_of(function), "load, permute, mma, load, permute, mma, load, add, mul, add, add");
}

// A loop that only loads and multiplies is not changed.
TEST(EarlyProducts, LeaveLoopsOfProducts) {
  Function function = parse(product_and("  store %c, %s, %i, %j {steps=[8,64]}\n", 64));
  const std::string text = print(function, false);
  begin_products_early(function);
  EXPECT_EQ(print(function, false), text);
}

TEST(EarlyProducts, ComputeTheSame) {
  const auto run = [](const std::string& kernel) {
    Matrices matrices;
    const int64_t sizes[][2] = {{250, 100}, {200, 64}, {2, 180}, {200, 64}};
    for (size_t i = 0; i < 4; ++i)
      matrices.add(sizes[i][0], sizes[i][1],
                   [i](size_t at) { return static_cast<float>((at * 37 + i * 11) % 101) / 64 - 0.7f; });
    return matrices.run(kernel, {2, 1, 1});
  };
  Function function = parse(gradients("f32"));
  begin_products_early(function);
  EXPECT_EQ(run(print(function, false)), run(gradients("f32")));
}

// The producer copies a row that the loop loads; the groups read it where it is used first.
TEST(Rows, ComeThroughARing) {
  Function function = parse(gradients("bf16"));
  make_dense(function, 4);
  begin_products_early(function);
  const KernelArrays arrays(function);
  const AsyncPlan plan(function, arrays, hopper, false);
  ASSERT_EQ(plan.why_not, "");
  std::vector<int64_t> bytes;
  for (const AsyncRing& ring : plan.rings)
    if (ring.kind == AsyncRing::Kind::rows) bytes.push_back(ring.stage_bytes);
  EXPECT_EQ(bytes, std::vector<int64_t>{64 * 4});
  const std::string text = divided_among_roles(function, plan);
  const size_t row = text.find("ring_row"), first = text.find("mma_issue"), await = text.find("mma_await");
  EXPECT_LT(text.find("mma_issue", first + 1), row);
  EXPECT_LT(row, await);
  EXPECT_EQ(text.find("ring_row", row + 1), std::string::npos);
  EXPECT_EQ(print(parse(text), false), text);
}

// Rows of an array that the kernel stores, and at places that tiles decide, are loaded by the groups.
TEST(Rows, OthersAreLoaded) {
  const auto rings = [](const std::string& from, const std::string& to) {
    const std::string text = with(gradients("bf16"), from, to);
    EXPECT_NE(text, gradients("bf16"));
    Function function = parse(text);
    make_dense(function, 4);
    const AsyncPlan plan(function, KernelArrays(function), hopper, false);
    EXPECT_EQ(plan.why_not, "");
    return std::count_if(plan.rings.begin(), plan.rings.end(),
                         [](const AsyncRing& ring) { return ring.kind == AsyncRing::Kind::rows; });
  };
  EXPECT_EQ(rings("  %k: bf16",
                  "  %z1: f32[1,4] = broadcast %z {shape=[1,4]}\n"
                  "  store %row, %z1, %i, %0 {steps=[1,4]}\n  %k: bf16"),
            0);
  EXPECT_EQ(rings("    %r: f32[64] = load %own, %j {pad=0.0,", "    %r: f32[64] = load %own, %j {pad=1.0,"),
            0);
}

}  // namespace
}  // namespace tile::cuda
