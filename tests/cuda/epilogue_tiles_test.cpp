// Tests which loads of an epilogue a producer copies, the stages that they get, and the kernel's text with
// them.
#include <gtest/gtest.h>

#include "cuda/async/epilogue.h"
#include "cuda/async/persist.h"
#include "cuda/async/plan.h"
#include "cuda/async/roles.h"
#include "cuda/async_cases.h"
#include "ir/print.h"
#include "ir/verify.h"

namespace tile::cuda {
namespace {

// A product of 128 rows to which an epilogue adds tiles: `loads` from %r to %e. Arrays are aligned.
struct Text {
  int n = 128;
  std::string loads = R"(%u: bf16[128,128] = load %d, %i, %j {pad=0.0, shape=[128,128], steps=[128,128]}
  %v: f32[128,128] = astype %u {dtype=f32}
  %e: f32[128,128] = add %r, %v)",
              stored = "%c";
};
std::string text_of(const Text& of) {
  const std::string n = str(of.n);
  return str(
      R"(kernel k(%a: array<bf16,2>, %b: array<bf16,2>, %c: array<bf16,2>, %d: array<bf16,2>, %g: array<bf16,2>) {
  %i: i32 = bid {axis=0}
  %j: i32 = bid {axis=1}
  %t: i32 = constant {dtype=i32, value=5}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[128,)",
      n, R"(] = broadcast %z {shape=[128,)", n, R"(]}
  %r: f32[128,)",
      n, R"(] = for %0, %t, %1, %zs (%k: i32, %acc: f32[128,)", n, R"(]) {
    %x: bf16[128,64] = load %a, %i, %k {pad=0.0, shape=[128,64], steps=[128,64]}
    %y: bf16[64,)",
      n, R"(] = load %b, %k, %j {pad=0.0, shape=[64,)", n, R"(], steps=[64,)", n, R"(]}
    %m: f32[128,)",
      n, R"(] = mma %x, %y, %acc
    yield %m
  }
  )",
      of.loads, R"(
  %o: bf16[128,)",
      n, R"(] = astype %e {dtype=bf16}
  store )",
      of.stored, R"(, %o, %i, %j {steps=[128,)", n, R"(]}
}
)");
}
Function kernel(const Text& of) {
  Function function = parse(text_of(of));
  make_dense(function, 5);
  make_persistent(function);
  divide_epilogues(function);
  return function;
}
AsyncPlan plan_of(const Function& function) { return {function, KernelArrays(function), hopper, true}; }

// The stages of the products' ring, of that of the loads, and how many panels are loaded through it.
std::string stages_of(const Text& of) {
  const Function function = kernel(of);
  const AsyncPlan plan = plan_of(function);
  EXPECT_EQ(plan.why_not, "");
  const AsyncRing& last = plan.rings.back();
  return str(plan.rings[0].stages, ", ",
             last.kind == AsyncRing::Kind::epilogue ? str(last.stages, " of ", last.uses.size())
                                                    : std::string("none"));
}
std::string load(const std::string& to, const std::string& array, int n,
                 const std::string& indices = "%i, %j", const std::string& pad = "0.0") {
  const std::string shape = str("[128,", n, "]");
  return str("%", to, ": bf16", shape, " = load ", array, ", ", indices, " {pad=", pad, ", shape=", shape,
             ", steps=", shape, "}\n  %", to, "f: f32", shape, " = astype %", to, " {dtype=f32}\n  ");
}
std::string added(int n, const std::string& loads, const std::string& sum = "add %r, %uf") {
  return str(loads, "%e: f32[128,", n, "] = ", sum);
}

TEST(EpilogueTiles, ProductsKeepThreeStages) {
  EXPECT_EQ(stages_of({}), "5, 2 of 2");
  EXPECT_EQ(stages_of({.n = 256, .loads = added(256, load("u", "%d", 256))}), "3, 3 of 4");
  EXPECT_EQ(stages_of({.n = 64, .loads = added(64, load("u", "%d", 64))}), "7, 1 of 1");
  EXPECT_EQ(
      stages_of({.n = 256,
                 .loads = added(
                     256, load("u", "%d", 256) + load("v", "%g", 256) + "%s: f32[128,256] = mul %r, %vf\n  ",
                     "add %s, %uf")}),
      "3, 3 of 8");
}

TEST(EpilogueTiles, OtherLoadsStayPlain) {
  EXPECT_EQ(stages_of({.loads = added(128, load("u", "%d", 128, "%i, %j", "1.0"))}), "6, none");
  // A row of 128 columns.
  EXPECT_EQ(
      stages_of({.loads = "%u: bf16[1,128] = load %d, %0, %j {pad=0.0, shape=[1,128], steps=[1,128]}\n"
                          "  %us: bf16[128,128] = broadcast %u {shape=[128,128]}\n"
                          "  %uf: f32[128,128] = astype %us {dtype=f32}\n  %e: f32[128,128] = add %r, %uf"}),
      "6, none");
  // An index that a producer would have to load.
  EXPECT_EQ(stages_of({.loads = added(128,
                                      "%w: bf16[1,1] = load %g, %0, %0 {pad=0.0, shape=[1,1], steps=[1,1]}\n"
                                      "  %ws: bf16 = reshape %w {shape=[]}\n"
                                      "  %q: i32 = astype %ws {dtype=i32}\n  " +
                                          load("u", "%d", 128, "%q, %j"))}),
            "6, none");
  // Nothing joins the tile with the sums.
  EXPECT_EQ(
      stages_of({.loads = added(128, load("u", "%d", 128) + "store %g, %u, %i, %j {steps=[128,128]}\n  ",
                                "add %r, %r")}),
      "6, none");
}

// A kernel may load the tile that its store replaces, if both access it panel by panel: each panel is loaded
// before it is stored. Otherwise the array may change first.
TEST(EpilogueTiles, AReplacedTileIsLoadedFirst) {
  EXPECT_EQ(stages_of({.stored = "%d"}), "5, 2 of 2");
  EXPECT_EQ(stages_of({.loads = added(128, load("u", "%d", 128, "%j, %i")), .stored = "%d"}), "7, none");
  // Without panels nothing says that both are the same tile.
  EXPECT_EQ(stages_of({.n = 64, .loads = added(64, load("u", "%d", 64)), .stored = "%d"}), "9, none");
}

TEST(EpilogueTiles, ASecondProducerCopiesThem) {
  Function function = kernel({});
  const AsyncPlan plan = plan_of(function);
  const std::string text = divided_among_roles(function, plan);
  EXPECT_EQ(text.substr(text.find("  roles")), R"(  roles () {
    for %12, %15, %13 (%16: i32) {
      %17: i32 = mod %16, %5
      %18: i32 = floordiv %16, %5
      %19: i32 = mod %18, %6
      for %9, %8, %10 (%20: i32) {
        ring_fill {ring=0}
        ring_load %0, %17, %20 {ring=0, steps=[128,64], tile=0}
        ring_load %1, %20, %19 {ring=0, steps=[64,128], tile=1}
        ring_next {ring=0}
        yield
      }
      yield
    }
    yield
  } () {
    for %12, %15, %13 (%21: i32) {
      %22: i32 = mod %21, %5
      %23: i32 = floordiv %21, %5
      %24: i32 = mod %23, %6
      %25: i64 = astype %24 {dtype=i64}
      %26: i64 = constant {dtype=i64, value=2}
      %27: i64 = mul %25, %26
      ring_fill {ring=1}
      ring_load %3, %22, %27 {ring=1, steps=[128,64], tile=0}
      ring_next {ring=1}
      %28: i64 = constant {dtype=i64, value=1}
      %29: i64 = add %27, %28
      ring_fill {ring=1}
      ring_load %3, %22, %29 {ring=1, steps=[128,64], tile=1}
      ring_next {ring=1}
      yield
    }
    yield
  } () {
    for %12, %15, %13 (%30: i32) {
      %31: i32 = mod %30, %5
      %32: i32 = floordiv %30, %5
      %33: i32 = mod %32, %6
      %34: f32[128,128] = undefined {dtype=f32, shape=[128,128]}
      %35: f32[128,128] = for %9, %8, %10, %34 (%36: i32, %37: f32[128,128]) {
        ring_wait {ring=0}
        %38: bool = ne %36, %9
        %39: bf16[128,64] = ring_tile {dtype=bf16, ring=0, shape=[128,64], tile=0}
        %40: bf16[64,128] = ring_tile {dtype=bf16, ring=0, shape=[64,128], tile=1}
        %41: f32[128,128] = mma_issue %39, %40, %37, %38 {left_transposed=0, right_transposed=0}
        mma_retire {pending=1}
        ring_free {ring=0}
        ring_next {ring=0}
        yield %41
      }
      %42: f32[128,128] = mma_await %35 {pending=0}
      ring_drain {ring=0}
      %43: bool = lt %9, %8
      %44: f32[128,128] = zero_unless %43, %42
      %45: i32 = constant {dtype=i32, value=0}
      %46: i32 = constant {dtype=i32, value=0}
      %47: f32[128,64] = extract %44, %45, %46 {panel=0, shape=[128,64]}
      %48: i64 = astype %33 {dtype=i64}
      %49: i64 = constant {dtype=i64, value=2}
      %50: i64 = mul %48, %49
      ring_wait {ring=1}
      %51: bf16[128,64] = ring_read {dtype=bf16, ring=1, shape=[128,64]}
      ring_release {ring=1}
      ring_next {ring=1}
      %52: f32[128,64] = astype %51 {dtype=f32}
      %53: f32[128,64] = add %47, %52
      %54: bf16[128,64] = astype %53 {dtype=bf16}
      store_async %2, %54, %31, %50 {steps=[128,64], tile=0}
      %55: i32 = constant {dtype=i32, value=1}
      %56: f32[128,64] = extract %44, %45, %55 {panel=1, shape=[128,64]}
      %57: i64 = constant {dtype=i64, value=1}
      %58: i64 = add %50, %57
      ring_wait {ring=1}
      %59: bf16[128,64] = ring_read {dtype=bf16, ring=1, shape=[128,64]}
      ring_release {ring=1}
      ring_next {ring=1}
      %60: f32[128,64] = astype %59 {dtype=f32}
      %61: f32[128,64] = add %56, %60
      %62: bf16[128,64] = astype %61 {dtype=bf16}
      store_async %2, %62, %31, %58 {steps=[128,64], tile=1}
      yield
    }
    store_wait
    yield
  }
}
)");
  EXPECT_EQ(print(parse(text), false), text);
}

}  // namespace
}  // namespace tile::cuda
