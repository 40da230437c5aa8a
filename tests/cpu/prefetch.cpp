// Tests fused loops that prefetch the next iteration's tiles: which loops do, and that no result changes.
#include <gtest/gtest.h>

#include "built_fused_loop.h"
#include "cpu/exec/fused_loop_node.h"
#include "cpu/interpreter/lowering_context.h"
#include "ir/print.h"

namespace tile::cpu::testing {
namespace {

size_t count_of(std::string_view wanted, const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, at + 1)) ++count;
  return count;
}

// Prefetched memory need not exist.
TEST_P(Assembler, FetchesALinePerIterationAndChangesNothing) {
  constexpr int64_t rows = 3, cols = 77;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Values<float> values(-4, 4, false);
    Floats in(rows, cols), plain(rows, cols), fetching(rows, cols);
    in.fill(values, rows);
    for (Floats* out : {&plain, &fetching}) {
      Built built;
      built.store(built.step("exp", {built.input()}));
      if (out == &fetching) built.form.prefetch = {{DType::f32, true, false}, {dtype, true, false}};
      ASSERT_TRUE(built.assemble());
      built.run(rows, cols, {in.place(), out->place(), {in.data, 4 * cols}, {nullptr, 64}});
      // Two vectors per iteration; for bf16 they are half a cache line, or one line.
      const size_t lines = vectors() == jit::Vectors::avx512 ? 2 + (dtype == DType::f32 ? 2 : 1) : 2;
      EXPECT_EQ(count_of("prefetcht1", built.disassembled()), out == &fetching ? lines : 0);
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) EXPECT_TRUE(same(plain.get(r, c), fetching.get(r, c)));
    EXPECT_TRUE(fetching.padding_untouched(rows));
  }
}

// Long computation on few bytes hides the next loads from the core; an addition does not.
TEST_P(Assembler, FetchesItsOwnInputsWhereTheWorkIsLong) {
  constexpr int64_t rows = 3, cols = 77;
  const auto fetches = [&](const char* step, int operands, bool streams) {
    Values<float> values(-4, 4, false);
    Floats in(rows, cols), out(rows, cols);
    in.fill(values, rows);
    Built built;
    const int x = built.input(DType::f32, true, {}, streams);
    built.store(built.step(step, std::vector<int>(static_cast<size_t>(operands), x)));
    EXPECT_TRUE(built.assemble());
    built.run(rows, cols, {in.place(), out.place()});
    EXPECT_TRUE(out.padding_untouched(rows));
    return count_of("prefetcht1", built.disassembled());
  };
  EXPECT_EQ(fetches("tanh", 1, true), vectors() == jit::Vectors::avx512 ? 2 : 1);
  EXPECT_EQ(fetches("tanh", 1, false), 0);
  EXPECT_EQ(fetches("add", 2, true), 0);
}

// Returns the tiles that each fused loop of a kernel's loop prefetches: axes for the next iteration's tiles,
// "once" for those that only this loop reads.
std::string fetched(const std::string& body) {
  const Function function = parse(
      "kernel k(%0: array<f32,2>, %1: array<f32,2>, %2: i32) {\n"
      "  %3: i32 = constant {dtype=i32, value=0}\n"
      "  %4: i32 = constant {dtype=i32, value=1}\n"
      "  %5: i32 = dim %0 {axis=0}\n" +
      body + "}\n");
  LoweringContext lower(function);
  std::string text;
  for (const auto& node : lower.block(*function.body().ops.back()->regions[0]))
    if (const auto* node_of_loop = dynamic_cast<const FusedLoopNode*>(node.get())) {
      text += "[";
      for (const FusedLoopPrefetch& prefetch : node_of_loop->fused_loop.prefetch)
        text += std::to_string(prefetch.axis);
      for (const bool once : node_of_loop->fused_loop.read_once) text += once ? "once" : "";
      text += "]";
    }
  return text;
}

const std::string top =
    "    %7: f32[8,64] = load %0, INDEX {pad=0.0, shape=[8,64], steps=[8,64]}\n"
    "    %8: f32[8] = reduce_max %7 {axes=[1]}\n"
    "    %9: f32[8,1] = reshape %8 {shape=[8,1]}\n"
    "    %10: f32[8,64] = broadcast %9 {shape=[8,64]}\n";

std::string in_loop(std::string text, const std::string& index) {
  for (size_t at = text.find("INDEX"); at != text.npos; at = text.find("INDEX")) text.replace(at, 5, index);
  return "  for %3, %5, %4 (%6: i32) {\n" + text + "    yield\n  }\n";
}

TEST(PrefetchLines, IsOfTheLastFusedLoopThatReads) {
  const std::string softmax = top +
                              "    %11: f32[8,64] = sub %7, %10\n"
                              "    %12: f32[8,64] = exp %11\n"
                              "    %13: f32[8] = reduce_sum %12 {axes=[1]}\n"
                              "    %14: f32[8,1] = reshape %13 {shape=[8,1]}\n"
                              "    %15: f32[8,64] = broadcast %14 {shape=[8,64]}\n"
                              "    %16: f32[8,64] = div %12, %15\n"
                              "    store %1, %16, INDEX {steps=[8,64]}\n";
  EXPECT_EQ(fetched(in_loop(softmax, "%6, %3")), "[][0][]");
  EXPECT_EQ(fetched(in_loop(softmax, "%3, %6")), "[][1][]");
  EXPECT_EQ(fetched(in_loop(softmax, "%6, %6")), "[][][]");  // the next tile is not along a single axis
  EXPECT_EQ(fetched(in_loop(softmax, "%2, %3")), "[][][]");  // the same in every iteration
}

TEST(PrefetchLines, IsOfTheFirstTooIfTheLastWrites) {
  const std::string less = top +
                           "    %11: f32[8,64] = sub %7, %10\n"
                           "    store %1, %11, INDEX {steps=[8,64]}\n";
  EXPECT_EQ(fetched(in_loop(less, "%6, %3")), "[0][0]");
}

TEST(PrefetchLines, IsOfTheSameIterationIfOneFusedLoopReads) {
  const std::string once =
      "    %7: f32[8,64] = load %0, INDEX {pad=0.0, shape=[8,64], steps=[8,64]}\n"
      "    %8: f32[8,64] = exp %7\n"
      "    store %1, %8, INDEX {steps=[8,64]}\n";
  EXPECT_EQ(fetched(in_loop(once, "%6, %3")), "[once]");
}

}  // namespace
}  // namespace tile::cpu::testing
