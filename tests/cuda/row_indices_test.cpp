// Tests which ops of index tiles are repeated for staged loads of rows.
#include "cuda/row_indices.h"

#include <gtest/gtest.h>

#include "ir/print.h"
#include "ir/verify.h"

namespace tile::cuda {
namespace {

// Two products of rows whose numbers are in %at, behind the tile's own number; MORE may read them too.
std::string kernel(const std::string& more, const std::string& columns = "64") {
  return R"(kernel k(%x: array<bf16,2>, %w: array<bf16,2>, %at: array<i32,1>, %out: array<f32,2>, %n: i32) {
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[64,64] = broadcast %z {shape=[64,64]}
  %own: i32[32] = arange {dtype=i32, size=32}
  %r: f32[64,64] = for %0, %n, %1, %zs (%k: i32, %acc: f32[64,64]) {
    %a: bf16[64,32] = load %x, %0, %k {pad=0.0, shape=[64,32], steps=[64,32]}
    %i: i32[32] = load %at, %k {pad=0, shape=[32], steps=[32]}
    %j: i32[32] = add %i, %own
    %b: bf16[32,64] = gather_rows %w, %j, %0 {axis=0, pad=0.0, shape=[32,64], steps=[1,64]}
    %c: bf16[32,)" +
         columns + "] = gather_rows %w, %j, %1 {axis=0, pad=0.0, shape=[32," + columns + "], steps=[1," +
         columns + R"(]}
    %m: f32[64,64] = mma %a, %b, %acc
    %y: f32[64,)" +
         columns + "] = broadcast %z {shape=[64," + columns + R"(]}
    %s: f32[64,)" +
         columns + R"(] = mma %a, %c, %y
    store %out, %s, %0, %k {steps=[64,)" +
         columns + R"(]}
)" + more +
         R"(    yield %m
  }
  store %out, %r, %0, %0 {steps=[64,64]}
}
)";
}

// The ops of the block and its loops, without constants.
std::string ops_of(const Block& block) {
  std::string text;
  for (const auto& op : block.ops) {
    if (op->is("constant")) continue;
    text += (text.empty() ? "" : " ") + std::string(op->name());
    for (const auto& region : op->regions) text += " (" + ops_of(*region) + ")";
  }
  return text;
}
std::string separated(const std::string& text, const std::string& facts) {
  Function function = parse(text);
  for (const int array : {0, 1}) {
    const std::string prefix = "array." + std::to_string(array) + ".";
    function.attributes().set(prefix + "unit", int64_t{1});
    function.attributes().set(prefix + facts, int64_t{1});
  }
  const KernelArrays arrays(function);
  separate_row_indices(function, arrays, StagingPlan(function, arrays, 90, 227 << 10));
  verify(function, "separate_row_indices");
  return ops_of(function.body());
}

// Loads get what computes their index tile, also the part before the loop: of one type together.
TEST(RowIndices, LoadsOfOneTypeShareTheirs) {
  EXPECT_EQ(separated(kernel(""), "aligned"),
            "broadcast arange arange for (load load load add add gather_rows gather_rows mma broadcast mma "
            "store yield) store");
}

TEST(RowIndices, LoadsOfOtherTypesHaveTheirOwn) {
  EXPECT_EQ(separated(kernel("", "32"), "aligned"),
            "broadcast arange arange arange for (load load load load add add add gather_rows gather_rows mma "
            "broadcast mma store yield) store");
}

// An array that the kernel stores may hold something else by then.
TEST(RowIndices, LoadsOfOtherArraysStay) {
  EXPECT_EQ(separated(kernel("    store %at, %own, %k {steps=[32]}\n"), "aligned"),
            "broadcast arange arange for (load load add add gather_rows gather_rows mma broadcast mma store "
            "store yield) store");
}

TEST(RowIndices, LoadsThatAreNotStagedStay) {
  EXPECT_EQ(
      separated(kernel(""), "small"),
      "broadcast arange for (load load add gather_rows gather_rows mma broadcast mma store yield) store");
}

}  // namespace
}  // namespace tile::cuda
