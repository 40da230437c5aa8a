// Tests the whole pipeline: traces in any order, stages, names, and that running it again changes nothing.
#include "ir/build.h"
#include "pass_text.h"

namespace tile {
namespace {

constexpr std::string_view attention =
    R"(kernel attention(%q: array<bf16,2>, %k: array<bf16,2>, %o: array<f32,2>) {
  %i: i32 = bid {axis=0}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %32: i32 = constant {dtype=i32, value=32}
  %64: i32 = constant {dtype=i32, value=64}
  %len: i32 = dim %k {axis=0}
  %rows: i32[64] = arange {dtype=i32, size=64}
  %col: i32[64,1] = reshape %rows {shape=[64,1]}
  %start: i32 = mul %i, %64
  %starts: i32[64,1] = broadcast %start {shape=[64,1]}
  %row: i32[64,1] = add %starts, %col
  %qt: bf16[64,16] = load %q, %i, %0 {pad=0.0, shape=[64,16], steps=[64,16]}
  %inf: f32 = constant {dtype=f32, value=-inf}
  %m: f32[64] = broadcast %inf {shape=[64]}
  %turns: i32 = cdiv %len, %32
  %best: f32[64] = for %0, %turns, %1, %m (%j: i32, %old: f32[64]) {
    %a: i32[32] = arange {dtype=i32, size=32}
    %b: i32[1,32] = reshape %a {shape=[1,32]}
    %js: i32 = mul %32, %j
    %jt: i32[1,32] = broadcast %js {shape=[1,32]}
    %cols: i32[1,32] = add %jt, %b
    %ends: i32[1,32] = broadcast %len {shape=[1,32]}
    %inside: bool[1,32] = lt %cols, %ends
    %insides: bool[64,32] = broadcast %inside {shape=[64,32]}
    %x: i32[64,32] = broadcast %row {shape=[64,32]}
    %y: i32[64,32] = broadcast %cols {shape=[64,32]}
    %causal: bool[64,32] = ge %x, %y
    %keep: bool[64,32] = bitwise_and %insides, %causal
    %kt: bf16[32,16] = load %k, %j, %0 {pad=0.0, shape=[32,16], steps=[32,16]}
    %t: bf16[16,32] = permute %kt {axes=[1,0]}
    %z: f32 = constant {dtype=f32, value=0.0}
    %acc: f32[64,32] = broadcast %z {shape=[64,32]}
    %s: f32[64,32] = mma %qt, %t, %acc
    %none: f32[64,32] = broadcast %inf {shape=[64,32]}
    %kept: f32[64,32] = where %keep, %s, %none
    %top: f32[64] = reduce_max %kept {axes=[1]}
    %new: f32[64] = maximum %old, %top
    yield %new
  }
  %out: f32[64,1] = reshape %best {shape=[64,1]}
  store %o, %out, %i, %0 {steps=[64,1]}
}
)";

TEST(Pipeline, CausalAttentionGetsALoopWithoutMasks) {
  EXPECT_EQ(optimised(attention),
            R"(kernel attention(%0: array<bf16,2>, %1: array<bf16,2>, %2: array<f32,2>) {
  %3: i32 = dim %1 {axis=0}
  %4: i32 = constant {dtype=i32, value=32}
  %5: i32 = floordiv %3, %4
  %6: i32 = bid {axis=0}
  %7: i32 = constant {dtype=i32, value=64}
  %8: i32 = mul %6, %7
  %9: i32 = constant {dtype=i32, value=1}
  %10: i32 = add %8, %9
  %11: i32 = floordiv %10, %4
  %12: i32 = minimum %5, %11
  %13: i32 = cdiv %3, %4
  %14: i32 = minimum %12, %13
  %15: i32 = constant {dtype=i32, value=0}
  %16: i32 = maximum %14, %15
  %17: f32 = constant {dtype=f32, value=-inf}
  %18: f32[64] = broadcast %17 {shape=[64]}
  %19: bf16[64,16] = load %0, %6, %15 {pad=0.0, shape=[64,16], steps=[64,16]}
  %20: f32[64] = for %15, %14, %9, %18 {split=1} (%21: i32, %22: f32[64]) {
    %23: bf16[32,16] = load %1, %21, %15 {pad=0.0, shape=[32,16], steps=[32,16]}
    %24: bf16[16,32] = permute %23 {axes=[1,0]}
    %25: f32 = constant {dtype=f32, value=0.0}
    %26: f32[64,32] = broadcast %25 {shape=[64,32]}
    %27: f32[64,32] = mma %19, %24, %26
    %28: f32[64] = reduce_max %27 {axes=[1]}
    %29: f32[64] = maximum %22, %28
    yield %29
  }
  %30: i32[32] = arange {dtype=i32, size=32}
  %31: i32[1,32] = reshape %30 {shape=[1,32]}
  %32: i32[64,1] = broadcast %8 {shape=[64,1]}
  %33: i32[64] = arange {dtype=i32, size=64}
  %34: i32[64,1] = reshape %33 {shape=[64,1]}
  %35: i32[64,1] = add %32, %34
  %36: f32[64] = for %16, %13, %9, %20 {edge=1, split=1} (%37: i32, %38: f32[64]) {
    %39: i32 = mul %37, %4
    %40: i32[1,32] = broadcast %39 {shape=[1,32]}
    %41: i32[1,32] = add %31, %40
    %42: i32[1,32] = broadcast %3 {shape=[1,32]}
    %43: bool[1,32] = lt %41, %42
    %44: bool[64,32] = broadcast %43 {shape=[64,32]}
    %45: i32[64,32] = broadcast %35 {shape=[64,32]}
    %46: i32[64,32] = broadcast %41 {shape=[64,32]}
    %47: bool[64,32] = ge %45, %46
    %48: bool[64,32] = bitwise_and %44, %47
    %49: bf16[32,16] = load %1, %37, %15 {pad=0.0, shape=[32,16], steps=[32,16]}
    %50: bf16[16,32] = permute %49 {axes=[1,0]}
    %51: f32 = constant {dtype=f32, value=0.0}
    %52: f32[64,32] = broadcast %51 {shape=[64,32]}
    %53: f32[64,32] = mma %19, %50, %52
    %54: f32[64,32] = broadcast %17 {shape=[64,32]}
    %55: f32[64,32] = where %48, %53, %54
    %56: f32[64] = reduce_max %55 {axes=[1]}
    %57: f32[64] = maximum %38, %56
    yield %57
  }
  %58: f32[64,1] = reshape %36 {shape=[64,1]}
  store %2, %58, %6, %15 {steps=[64,1]}
}
)");
}

TEST(Pipeline, RunningItAgainChangesNothing) {
  std::string once = optimised(attention);
  EXPECT_EQ(optimised(once), once);
}

TEST(Pipeline, StagesNameThePassesThatChangedSomething) {
  std::string names;
  std::vector<Stage> stages = stages_of(parse(attention));
  for (const Stage& stage : stages) names += str(stage.pass, ' ');
  EXPECT_EQ(names, "trace canonicalise licm split_loops fold simplify cse dce canonicalise ");
  EXPECT_EQ(stages.front().text, print(parse(attention)));
  Function function = parse(attention);
  run_passes(function);
  EXPECT_EQ(stages.back().text, print(function));
}

TEST(Pipeline, OneHashForEveryOrderOfTracing) {
  Function other = parse(attention);
  auto& ops = other.body().ops;
  std::swap(ops[1], ops[4]);   // constants in another order
  std::swap(ops[9], ops[12]);  // independent pure ops
  Function first = parse(attention);
  EXPECT_NE(hash(first), hash(other));
  run_pass("canonicalise", first);
  run_pass("canonicalise", other);
  EXPECT_EQ(hash(first), hash(other));
}

TEST(Pipeline, UnknownPassesAreNamed) {
  Function function = parse(attention);
  try {
    run_pass("inline", function);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, 60),
              "there is no pass 'inline'; the passes are expand, canonicali");
  }
}

// A derived primitive that expands to another derived primitive.
std::vector<Type> infer_same(const Op& op) { return {op.type(0)}; }
const Register twice_{{.name = "test_twice",
                       .operands = 1,
                       .infer = infer_same,
                       .expand =
                           [](Builder& build, const Op& op) {
                             return std::vector<Value*>{build.emit("add", {op.operands[0], op.operands[0]})};
                           },
                       .doc = "x + x"}};
const Register fourfold_{{.name = "test_fourfold",
                          .operands = 1,
                          .infer = infer_same,
                          .expand =
                              [](Builder& build, const Op& op) {
                                Value* twice = build.emit("test_twice", {op.operands[0]});
                                return std::vector<Value*>{build.emit("test_twice", {twice})};
                              },
                          .doc = "4 x"}};

TEST(Expand, DerivedPrimitivesBecomeCoreOnes) {
  EXPECT_EQ(after("expand", R"(kernel k(%x: f32[4], %c: bool) {
  %r: f32[4] = if %c () {
    %y: f32[4] = test_fourfold %x
    yield %y
  } () {
    yield %x
  }
  %z: f32[4] = test_twice %r
})"),
            R"(kernel k(%0: f32[4], %1: bool) {
  %2: f32[4] = if %1 () {
    %3: f32[4] = add %0, %0
    %4: f32[4] = add %3, %3
    yield %4
  } () {
    yield %0
  }
  %5: f32[4] = add %2, %2
}
)");
}

}  // namespace
}  // namespace tile
