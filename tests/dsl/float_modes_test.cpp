// Tests the float modes of the language: the ops that they become, and the errors for missing modes.
#include <gtest/gtest.h>

#include <regex>

#include "dsl/tracer.h"
#include "error_text.h"
#include "ir/print.h"
#include "ir/walk.h"
#include "tile.h"

namespace tile {
namespace {

Tile ones(DType dtype) { return zeros({8}, dtype); }

// Returns the names of the ops after the operands' ops, with the dtypes of casts.
std::string ops_of(const std::function<void()>& body) {
  Tracer tracer("kernel");
  body();
  std::string text;
  walk(tracer.function().body(), [&](const Op& op) {
    if (op.is("constant") || op.is("broadcast")) return;
    text += (text.empty() ? "" : " ") + std::string(op.name());
    if (op.name().starts_with("astype")) text += str(":", op.dtype("dtype"));
  });
  return text;
}
std::string error_in(const std::function<void()>& body) {
  const std::string text = error_of([&] {
    Tracer tracer("kernel");
    body();
  });
  return std::regex_replace(text, std::regex(R"(float_modes_test\.cpp:\d+)"), "here");
}

TEST(FloatModes, EachRoundingHasItsOps) {
  EXPECT_EQ(ops_of([] { add(ones(f32), 1.5, Rounding::zero); }), "add_rz");
  EXPECT_EQ(ops_of([] { sub(ones(f64), ones(f64), Rounding::down); }), "sub_rm");
  EXPECT_EQ(ops_of([] { mul(ones(f32), ones(f32), Rounding::up); }), "mul_rp");
  EXPECT_EQ(ops_of([] { div(ones(f32), ones(f32), Rounding::nearest); }), "div");
  EXPECT_EQ(ops_of([] { fma(ones(f32), ones(f32), 1, Rounding::zero); }), "fma_rz");
  EXPECT_EQ(ops_of([] { sqrt(ones(f64), Rounding::up); }), "sqrt_rp");
  EXPECT_EQ(ops_of([] { add(ones(f32), ones(f32)); }), "add");
}

TEST(FloatModes, NarrowFloatsAreRoundedTwiceInOneDirection) {
  EXPECT_EQ(ops_of([] { sqrt(ones(bf16), Rounding::down); }), "astype:f32 sqrt_rm astype_rm:bf16");
  EXPECT_EQ(ops_of([] { add(ones(f16), ones(f16), Rounding::zero); }),
            "astype:f32 astype:f32 add_rz astype_rz:f16");
  EXPECT_EQ(ops_of([] { add(ones(f16), ones(f16), Rounding::nearest); }), "add");
}

TEST(FloatModes, OperandsAndResultsAreFlushed) {
  EXPECT_EQ(ops_of([] { rsqrt(ones(f32), Subnormals::flush); }), "flush_subnormal rsqrt flush_subnormal");
  EXPECT_EQ(ops_of([] {
              mul(ones(f32), ones(f32), {Rounding::up, Subnormals::flush});
            }),
            "flush_subnormal flush_subnormal mul_rp flush_subnormal");
  EXPECT_EQ(ops_of([] { max(ones(f32), ones(f32), Subnormals::flush); }),
            "flush_subnormal flush_subnormal maximum flush_subnormal");
  EXPECT_EQ(ops_of([] { exp2(ones(bf16), Subnormals::keep); }), "exp2");
}

TEST(FloatModes, NanWins) {
  EXPECT_EQ(ops_of([] { min(ones(f16), ones(f16), propagate_nan); }), "minimum_nan");
  EXPECT_EQ(ops_of([] { maximum(ones(f32), 1.0, propagate_nan, Subnormals::flush); }),
            "flush_subnormal flush_subnormal maximum_nan flush_subnormal");
  EXPECT_EQ(error_in([] { max(ones(i32), ones(i32), propagate_nan); }),
            "here: maximum_nan: does not take i32; cast with astype() first");
}

TEST(FloatModes, WhereThereIsNone) {
  EXPECT_EQ(
      error_in([] { add(ones(i32), ones(i32), Rounding::zero); }),
      "here: add: a rounding mode is for floating dtypes, not i32; leave it out, or cast with astype()");
  EXPECT_EQ(error_in([] { div(ones(u8), 2, Rounding::nearest); }),
            "here: div: a rounding mode is for floating dtypes, not u8; leave it out, or cast with astype()");
  EXPECT_EQ(error_in([] { rsqrt(ones(f32), Rounding::up); }),
            "here: rsqrt: takes no rounding mode; add, sub, mul, div, fma, sqrt and astype() take one");
  EXPECT_EQ(
      error_in([] { add(ones(f32), ones(f32), Rounding::away); }),
      "here: add: does not round halves away, which only astype() does; take nearest, zero, down or up");
  EXPECT_EQ(error_in([] { maximum(ones(f32), ones(f32), Rounding::nearest); }),
            "here: maximum: takes no rounding mode; add, sub, mul, div, fma, sqrt and astype() take one");
  EXPECT_EQ(error_in([] { mul(ones(f16), ones(f16), Subnormals::flush); }),
            "here: mul: subnormals are flushed in f32, not in f16; cast with astype()");
  EXPECT_EQ(error_in([] { add(ones(f8e4m3), ones(f8e4m3), Rounding::zero); }),
            "here: add: does not take f8e4m3; cast with astype() first");
}

std::string cast(DType from, DType to, Rounding rounding) {
  return ops_of([&] { arange(8).astype(from).astype(to, rounding); });
}
constexpr DType every_float[] = {f8e4m3, f8e5m2, f16, bf16, tf32, f32, f64};

TEST(FloatModes, CastsOfEveryPair) {
  for (DType from : every_float)
    for (DType to : every_float)
      for (Rounding rounding :
           {Rounding::nearest, Rounding::zero, Rounding::down, Rounding::up, Rounding::away}) {
        const bool narrow = to == f8e4m3 || to == f8e5m2, to_f16 = from != f32 && from != f64 && from != tf32;
        const bool has = rounding == Rounding::nearest || to == f64 || to == f32 ||
                         (rounding == Rounding::zero ? !narrow : to == f16 && to_f16) ||
                         (rounding == Rounding::away && to == tf32);
        const std::string first = str("arange astype:", from);
        const bool exact = to == f64 || (to == f32 && from != f64);
        if (!has)
          EXPECT_EQ(error_in([&] { arange(8).astype(from).astype(to, rounding); }),
                    str("here: astype: does not round ", from, " to ", to, " ", rounding,
                        "; leave the mode out to round to nearest"));
        else if (from == to)
          EXPECT_EQ(cast(from, to, rounding), first);
        else
          EXPECT_EQ(cast(from, to, rounding),
                    str(first, " astype", exact ? "" : info(rounding).suffix, ":", to));
      }
}

TEST(FloatModes, CastsOfFloatsOnly) {
  EXPECT_EQ(error_in([] { arange(8).astype(f32, Rounding::zero); }),
            "here: astype: a rounding mode is for float to float, not i32 to f32; leave it out");
  EXPECT_EQ(error_in([] { ones(f32).astype(i8, Rounding::nearest); }),
            "here: astype: a rounding mode is for float to float, not f32 to i8; leave it out");
  EXPECT_EQ(error_in([] { ones(f32).astype(f8e5m2, Rounding::down); }),
            "here: astype: does not round f32 to f8e5m2 down; leave the mode out to round to nearest");
  EXPECT_EQ(error_in([] {
              emit("astype_rz", {ones(f32).value()}, {{"dtype", f8e4m3}}, Location::current());
            }),
            "here: astype_rz: cannot round f32 to f8e4m3 in a direction; astype rounds to nearest");
  EXPECT_EQ(
      error_in([] { ones(f32).astype(f16, Rounding::away); }),
      "here: astype: does not round f32 to f16 with halves away; leave the mode out to round to nearest");
  EXPECT_EQ(error_in([] {
              emit("astype_ra", {ones(f32).value()}, {{"dtype", bf16}}, Location::current());
            }),
            "here: astype_ra: cannot round f32 to bf16 in a direction; astype rounds to nearest");
}

}  // namespace
}  // namespace tile
