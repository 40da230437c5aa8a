// Tests the limit of 2^27 elements per tile: every operation reports the same error at the user's line.
#include <gtest/gtest.h>

#include "ir/print.h"
#include "trace_error.h"

namespace tile {
namespace {

std::string too_large(const char* operation, const char* type, const char* count) {
  return str("here: ", operation, ": the tile ", type, " has ", count,
             " elements; the most is 134217728, make it smaller");
}

TEST(TileSizes, HaveALimit) {
  constexpr int64_t side = 65536, huge = int64_t{1} << 31, most = int64_t{1} << 27;
  const auto row = [] { return zeros({1, side}, i8); };
  const auto column = [] { return zeros({side, 1}, i8); };
  const char *square = "i8[65536,65536]", *count = "4294967296";
  EXPECT_EQ(trace_error([&](Array, Array) { zeros({most}, i8); }), "no error");
  EXPECT_EQ(trace_error([&](Array, Array) { zeros({most + 1}, i8); }),
            too_large("broadcast", "i8[134217729]", "134217729"));
  EXPECT_EQ(trace_error([&](Array, Array) {
              full({side, side}, 1, i8);
            }),
            too_large("broadcast", square, count));
  EXPECT_EQ(trace_error([&](Array, Array) {
              ones({huge, huge}, i8);
            }),
            too_large("broadcast", "i8[2147483648,2147483648]", "4611686018427387904"));
  EXPECT_EQ(trace_error([&](Array, Array) {
              ones({huge, huge, huge}, i8);
            }),
            too_large("broadcast", "i8[2147483648,2147483648,2147483648]", "2^63 or more"));
  EXPECT_EQ(trace_error([&](Array x, Array) {
              x.tiled_view({side, side}).load({0, 0});
            }),
            too_large("load", "f32[65536,65536]", count));
  EXPECT_EQ(trace_error([&](Array, Array) {
              row().broadcast_to({side, side});
            }),
            too_large("broadcast", square, count));
  EXPECT_EQ(trace_error([&](Array, Array) { row() + column(); }), too_large("broadcast", square, count));
  EXPECT_EQ(trace_error([&](Array, Array) { arange(2 * most); }),
            too_large("arange", "i32[268435456]", "268435456"));
  EXPECT_EQ(trace_error([&](Array, Array) { cat(zeros({most}, i8), zeros({most}, i8), 0); }),
            too_large("cat", "i8[268435456]", "268435456"));
  EXPECT_EQ(trace_error([&](Array, Array y) { gather(y, {row().astype(i32) + column().astype(i32)}); }),
            too_large("broadcast", "i32[65536,65536]", count));
  EXPECT_EQ(trace_error([&](Array x, Array) { gather_rows(x, 0, arange(65536), {0}, {side}); }),
            too_large("gather_rows", "f32[65536,65536]", count));
}

TEST(TileSizes, AreCheckedInTexts) {
  const auto error = [](const char* line) {
    return error_of(
        [&] { parse(str("kernel k() {\n  %0: i8 = constant {dtype=i8, value=1}\n", line, "}")); });
  };
  EXPECT_EQ(error("  %1: i8[65536,65536] = broadcast %0 {shape=[65536,65536]}\n"),
            "tile text 3:7: the tile i8[65536,65536] has 4294967296 elements; the most is 134217728, make it "
            "smaller");
}

}  // namespace
}  // namespace tile
