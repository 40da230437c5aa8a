// Tests invalid input of the language: exact texts with the user's line, the given value and the fix.
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "dsl/trace_error.h"

namespace tile {
namespace {

TEST(BadInput, BreakOutOfATracedLoop) {
  EXPECT_EQ(trace_error([](Array x, Array) {
              for (Tile k : range(4)) {
                Tile t = ones_at(x);
                break;
              }
              x.tiled_view({4, 8}).store({0, 0}, 1.0);
            }),
            "here: the traced loop was left by break or return; a traced body must run to its end, use "
            "where() or when() inside it");
  EXPECT_EQ(trace_error([](Array x, Array) {
              [&] {
                for (Tile k : range(x.dim(0))) return;
              }();
            }),
            "here: the traced loop was left by break or return; a traced body must run to its end, use "
            "where() or when() inside it");
}

TEST(BadInput, JumpsAndConditions) {
  EXPECT_EQ(trace_error([](Array, Array) { break_loop(); }),
            "here: break_loop: it is outside of any loop; call it inside range() or while_loop()");
  EXPECT_EQ(trace_error([](Array, Array) { when(arange(1).reshape({}) == 0, [] { continue_loop(); }); }),
            "here: continue_loop: it is outside of any loop; call it inside range() or while_loop()");
  EXPECT_EQ(trace_error([](Array x, Array) {
              for (Tile k : range(4)) {
                break_loop();
                ones_at(x);
              }
            }),
            "here: this follows break_loop() or continue_loop() and never runs; jump last, or inside "
            "when()");
  EXPECT_EQ(trace_error([](Array x, Array) {
              while_loop([&] { return x.dim(0) > 2; },
                         [&] {
                           continue_loop();
                           while_loop([&] { return x.dim(0) > 2; }, [] {});
                         });
            }),
            "here: this follows break_loop() or continue_loop() and never runs; jump last, or inside "
            "when()");
  EXPECT_EQ(
      trace_error([](Array, Array) { while_loop([] { return arange(4) > 2; }, [] {}); }),
      "here: while_loop: the condition is bool[4]; it must be a bool scalar, reduce it with any() or all()");
  EXPECT_EQ(
      trace_error([](Array, Array) {
        Tile t = 0;
        for (Tile k : range(4))
          when(k == 2, [&] {
            t = 1.5;
            break_loop();
          });
      }),
      "here: a loop-carried Tile is i32 before the loop (here) but f32 where the body is left (here); give "
      "it one type, with astype() or zeros()");
}

TEST(BadInput, ATileOutsideItsTrace) {
  std::optional<Tile> kept;
  EXPECT_EQ(trace_error([&](Array x, Array) { kept.emplace(ones_at(x)); }), "no error");
  EXPECT_EQ(trace_error([&](Array, Array) { exp(*kept); }),
            "here: this Tile belongs to another trace; make it inside the kernel that uses it");
  try {
    arange(4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, 15), "errors_test.cpp");
    EXPECT_EQ(std::string(error.what()).substr(std::string(error.what()).find(' ')),
              " a tile operation was used outside a kernel; it runs only while a kernel is traced");
  }
}

TEST(BadInput, ATileOfALoopThatHasEnded) {
  EXPECT_EQ(trace_error([](Array, Array) {
              std::unique_ptr<Tile> kept;
              for (Tile k : range(4)) kept.reset(new Tile(k * 2));
              *kept + 1;
            }),
            "here: this Tile has no value here: it was never assigned, or it was made inside a loop or "
            "branch that has ended (made at here); assign it before the loop");
  EXPECT_EQ(trace_error([](Array, Array) {
              Tile t;
              t + 1;
            }),
            "here: this Tile has no value here: it was never assigned, or it was made inside a loop or "
            "branch that has ended (made at here); assign it before the loop");
}

TEST(BadInput, AViewOfALoopThatHasEnded) {
  const std::string text =
      "here: this Array view was made inside a loop or branch that has ended (made at here); make it before "
      "the loop";
  const auto of_row = [&](const std::function<void(Array)>& use) {
    return trace_error([&](Array x, Array) {
      std::optional<Array> row;
      for (Tile k : range(4)) row.emplace(x[{k}]);
      use(*row);
    });
  };
  EXPECT_EQ(of_row([](Array row) { row.tiled_view({8}).load({0}); }), text);
  EXPECT_EQ(of_row([](Array row) { row.tiled_view({8}).atomic_max({0}, 1.0); }), text);
  EXPECT_EQ(of_row([](Array row) { gather(row, {arange(8)}); }), text);
  EXPECT_EQ(of_row([](Array row) { scatter(row, {0}, 1.0); }), text);
  EXPECT_EQ(of_row([](Array row) { atomic_add(row, {0}, 1.0); }), text);
}

TEST(BadInput, APlainVariableThatChangesInATracedLoop) {
  EXPECT_EQ(trace_error([](Array x, Array) {
              int n = 0;
              Tile sum = zeros({4, 8}, f32);
              for (Tile k : range(4)) sum += ones_at(x) * (n += 1);
            }),
            "here: the loop body traced differently the second time: a plain C++ variable changes inside it; "
            "make it a Tile");
}

TEST(BadInput, ACarriedTileThatChangesItsType) {
  EXPECT_EQ(trace_error([](Array x, Array) {
              Tile sum = 0.0;
              for (Tile k : range(4)) sum = sum + ones_at(x);
            }),
            "here: a loop-carried Tile is f32 before the loop (here) but f32[4,8] at the end of the body "
            "(here); give it one type, with astype() or zeros()");
  EXPECT_EQ(trace_error([](Array x, Array) {
              Tile t = 0.0;
              when(x.dim(0) < 4, [&] { t = ones_at(x); });
            }),
            "here: when: a Tile is f32[4,8] after one branch (here) and f32 after the other (here); give it "
            "one type");
}

TEST(BadInput, WrongDType) {
  EXPECT_EQ(trace_error([](Array x, Array) { ones_at(x) + arange(8); }),
            "here: add: operands are f32[4,8] and i32[8]; cast one with astype()");
  EXPECT_EQ(trace_error([](Array, Array) { arange(8) * 1.5; }),
            "here: mul: the literal 1.5 does not fit a tile of i32; cast the tile with astype()");
  EXPECT_EQ(trace_error([](Array, Array) { exp(arange(8)); }),
            "here: exp: does not take i32; cast with astype() first");
  EXPECT_EQ(trace_error([](Array, Array) { arange(8, i8) + 200; }),
            "here: add: the literal 200 is out of range of i8; cast the tile to a wider dtype");
  EXPECT_EQ(trace_error([](Array x, Array) { when(x.dim(0), [] {}); }),
            "here: when: the condition must be a bool scalar Tile, got i32; use if for plain values");
  EXPECT_EQ(trace_error([](Array x, Array) { range(ones_at(x).sum(0).sum(0)); }),
            "here: range: a bound is f32; it must be an integer scalar, cast it with astype()");
  EXPECT_EQ(trace_error([](Array x, Array) {
              mma(ones_at(x), ones_at(x).t(), zeros({4, 4}, f64));
            }),
            "here: mma: cannot multiply f32 by f32 into f64; f16, bf16, f8, tf32 and f32 accumulate in "
            "f32, f64 in f64, i8 and u8 in i32");
}

TEST(BadInput, AssertsTakeConditions) {
  EXPECT_EQ(trace_error([](Array x, Array) { assert_(ones_at(x), "all are"); }),
            "here: assert: takes a bool tile, got f32[4,8]; compare it with something");
  EXPECT_EQ(trace_error([](Array x, Array) { assert_(x.dim(0)); }),
            "here: assert: takes a bool tile, got i32; compare it with something");
  EXPECT_EQ(trace_error([](Array x, Array) {
              assert_(ones_at(x) > 0, "ones");
              assert_(x.dim(0) > 0);
              assert_(true, "known");
            }),
            "no error");
  EXPECT_EQ(trace_error([](Array x, Array) {
              reduce(ones_at(x), 1, [](Tile a, Tile b) {
                assert_(a < b, "sorted");
                return a;
              });
            }),
            "here: reduce: its region contains assert; it may only contain arithmetic");
}

TEST(BadInput, WrongRank) {
  EXPECT_EQ(trace_error([](Array, Array y) {
              y.tiled_view({4, 8});
            }),
            "here: tiled_view: shape [4,8] for array<f32,1>; give one extent per axis");
  EXPECT_EQ(trace_error([](Array x, Array) {
              x.tiled_view({4, 8}).load({0});
            }),
            "here: load: 1 indices for a view of shape [4,8]; give one per axis");
  EXPECT_EQ(trace_error([](Array, Array y) {
              y[{0, 1}];
            }),
            "here: index: 2 indices for array<f32,1>; give one for each leading axis to fix");
  EXPECT_EQ(trace_error([](Array x, Array) { x.dim(2); }),
            "here: dim: axis 2 is out of range for array<f32,2>; it has 2 axes");
  EXPECT_EQ(trace_error([](Array x, Array) { ones_at(x).sum(2); }),
            "here: sum: axis 2 is out of range for f32[4,8]; it has 2 axes");
  EXPECT_EQ(trace_error([](Array x, Array) { gather(x, {arange(4)}); }),
            "here: gather: 1 index tiles for array<f32,2>; give one per axis");
  EXPECT_EQ(trace_error([](Array, Array) { arange(4).t(); }),
            "here: t: i32[4] has fewer than two axes; reshape() it first");
}

TEST(BadInput, ShapeMismatch) {
  EXPECT_EQ(trace_error([](Array x, Array) { ones_at(x) + zeros({4}, f32); }),
            "here: add: f32[4,8] and f32[4] do not broadcast; extents must be equal or 1, counted from the "
            "last axis");
  EXPECT_EQ(trace_error([](Array x, Array) {
              ones_at(x).reshape({5, 5});
            }),
            "here: reshape: cannot view f32[4,8] as [5,5]; the element counts must be equal");
  EXPECT_EQ(trace_error([](Array x, Array) {
              ones_at(x).broadcast_to({4, 9});
            }),
            "here: broadcast_to: f32[4,8] and f32[4,9] do not broadcast; extents must be equal or 1, counted "
            "from the last axis");
  EXPECT_EQ(trace_error([](Array x, Array) {
              mma(ones_at(x), ones_at(x), zeros({4, 8}, f32));
            }),
            "here: mma: cannot multiply f32[4,8] by f32[4,8]; the inner extents differ");
  EXPECT_EQ(
      trace_error([](Array x, Array) {
        mma(ones_at(x), ones_at(x).t(), zeros({4, 8}, f32));
      }),
      "here: mma: the accumulator is f32[4,8] but the product of f32[4,8] and f32[8,4] has shape [4,4]");
  EXPECT_EQ(trace_error([](Array x, Array) {
              ones_at(x).permute({0, 0});
            }),
            "here: permute: axes [0,0] are no permutation of the axes of f32[4,8]; name each axis once");
  EXPECT_EQ(trace_error([](Array, Array y) { y.tiled_view({4}).store({0}, zeros({5}, f32)); }),
            "here: store: f32[5] and f32[4] do not broadcast; extents must be equal or 1, counted from the "
            "last axis");
  EXPECT_EQ(trace_error([](Array, Array) { range(0, 4, -1); }),
            "here: range: the step is -1; it must be at least 1");
}

TEST(BadInput, PaddingOfIntegers) {
  const std::string text = error_of([] {
    Tracer tracer("kernel");
    Function& function = tracer.function();
    Array x(function.add_argument(function.body(), Type::array(i32, 1), {}));
    x.tiled_view({4}).load({0}, 1.5, {"pad.cpp", 3});
  });
  EXPECT_EQ(text, "pad.cpp:3: load: a i32 array is padded with 0, not 1.5");
}

TEST(BadInput, Bits) {
  EXPECT_EQ(trace_error([](Array x, Array) { ones_at(x).bitcast(f64); }),
            "here: bitcast: cannot reinterpret f32 as f64; the widths must be equal and neither bool");
}

TEST(BadInput, Hints) {
  EXPECT_EQ(trace_error([](Array, Array) { hint_threads(6); }),
            "here: hint_threads: the power is 6; it must be at least -5 and at most 5");
  EXPECT_EQ(trace_error([](Array, Array) { hint_threads(-6); }),
            "here: hint_threads: the power is -6; it must be at least -5 and at most 5");
  const std::string outside = error_of([] { hint_threads(1, {"hints.cpp", 3}); });
  EXPECT_EQ(outside,
            "hints.cpp:3: a tile operation was used outside a kernel; it runs only while a kernel is traced");
}

TEST(BadInput, RandomNumbers) {
  EXPECT_EQ(trace_error([](Array, Array) { uniform({8}, 1.5, 0); }),
            "here: uniform: seed is the literal 1.5; pass an integer, or cast it with astype()");
  EXPECT_EQ(trace_error([](Array, Array y) { normal({8}, y.tiled_view({1}).load({0}).reshape({}), 0); }),
            "here: normal: seed is f32; pass an integer, or cast it with astype()");
  EXPECT_EQ(trace_error([](Array, Array) { random_bits({8}, 1, arange(8, f32)); }),
            "here: random_bits: offset is f32[8]; pass an integer, or cast it with astype()");
  EXPECT_EQ(trace_error([](Array, Array) { random_bits({8}, 1, 0, u32, true); }),
            "here: random_bits: stream is the literal 1; pass an integer, or cast it with astype()");
  EXPECT_EQ(trace_error([](Array, Array) {
              uniform({4, 8}, 1, arange(8));
            }),
            "here: uniform: offset is [8], the result [4,8]; pass a number for each element, or a scalar (of "
            "one element reshape({}) makes one)");
  EXPECT_EQ(trace_error([](Array, Array) {
              uniform({4, 8}, arange(4), 0);
            }),
            "here: uniform: i32[4] and i32[4,8] do not broadcast; extents must be equal or 1, counted from "
            "the last axis");
  EXPECT_EQ(trace_error([](Array, Array) {
              uniform({4, 0}, 1, 0);
            }),
            "here: uniform: shape is [4,0]; extents must be at least 1");
  EXPECT_EQ(trace_error([](Array, Array) { random_bits({8}, 1, 0, i32); }),
            "here: random_bits: dtype is i32; pass u32 or u64");
  EXPECT_EQ(trace_error([](Array, Array) { uniform({8}, 1, 0, u32); }),
            "here: uniform: dtype is u32; pass f16, bf16, f32 or f64");
  EXPECT_EQ(trace_error([](Array, Array) { normal({8}, 1, 0, f8e4m3); }),
            "here: normal: dtype is f8e4m3; pass f16, bf16, f32 or f64");
}

}  // namespace
}  // namespace tile
