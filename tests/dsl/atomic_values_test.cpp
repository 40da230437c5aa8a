// Tests the values of atomic operations: operations on bits reject another dtype, all others cast implicitly.
#include <gtest/gtest.h>

#include "dsl/trace_error.h"

namespace tile {
namespace {

TEST(AtomicValues, BitsAreOfTheArraysDtype) {
  const auto text = [](const char* name, const char* what) {
    return std::string("here: ") + name + ": the " + what +
           " is i32[4], the array array<f32,1>; its bits are used, so cast it with astype()";
  };
  EXPECT_EQ(trace_error([](Array, Array y) { atomic_and(y, {arange(4)}, arange(4)); }),
            text("atomic_and", "value"));
  EXPECT_EQ(trace_error([](Array, Array y) { atomic_or_offset(y, arange(4), arange(4)); }),
            text("atomic_or", "value"));
  EXPECT_EQ(trace_error([](Array, Array y) { y.tiled_view({4}).atomic_xor({0}, arange(4)); }),
            text("atomic_xor", "value"));
  EXPECT_EQ(trace_error([](Array, Array y) { atomic_cas(y, {arange(4)}, arange(4), 1.0); }),
            text("atomic_cas", "expected value"));
  EXPECT_EQ(trace_error([](Array, Array y) { atomic_cas_offset(y, arange(4), arange(4), arange(4)); }),
            text("atomic_cas", "expected value"));
}

TEST(AtomicValues, OthersAreCast) {
  EXPECT_EQ(trace_error([](Array, Array y) {
              Tile index = arange(4);
              atomic_cas(y, {index}, 0.0, index);
              atomic_cas(y, {index}, index.astype(f32), index);
              atomic_add(y, {index}, index);
              atomic_xchg(y, {index}, index);
              y.tiled_view({4}).atomic_max({0}, index);
            }),
            "no error");
}

}  // namespace
}  // namespace tile
