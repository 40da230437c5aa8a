// Tests invalid input of functions over tiles: axes, combine functions, ranges, sub-tiles, bytes, rows and
// raw offsets.
#include <gtest/gtest.h>

#include "dsl/trace_error.h"

namespace tile {
namespace {

TEST(BadTiles, AxesOfReductions) {
  EXPECT_EQ(trace_error([](Array x, Array) {
              ones_at(x).sum({0, 2});
            }),
            "here: sum: axis 2 is out of range for f32[4,8]; it has 2 axes");
  EXPECT_EQ(trace_error([](Array x, Array) {
              ones_at(x).argmax({1, -1});
            }),
            "here: argmax: axes [1,-1] of f32[4,8] name one twice; name each axis once");
  EXPECT_EQ(trace_error([](Array x, Array) { ones_at(x).any(); }),
            "here: reduce_any: does not take f32; cast with astype() first");
  EXPECT_EQ(trace_error([](Array x, Array) { ones_at(x).cumsum(2); }),
            "here: cumsum: axis 2 is out of range for f32[4,8]; it has 2 axes");
  EXPECT_EQ(trace_error([](Array x, Array) { (ones_at(x) > 0).cummax(0); }),
            "here: cummax: does not take bool; cast with astype() first");
  EXPECT_EQ(trace_error([](Array x, Array) {
              Tile all = ones_at(x).sum() + ones_at(x).max({1, 0});
              Tile kept = ones_at(x).argmin({}, true) + 1;
              kept.reshape({1, 1});
              all.sum(), all.argmax();
            }),
            "no error");
}

TEST(BadTiles, CombineFunctions) {
  const auto first = [](std::vector<Tile> a, std::vector<Tile>) { return a; };
  EXPECT_EQ(trace_error([&](Array x, Array) {
              reduce({ones_at(x), ones_at(x)}, 1,
                     [](std::vector<Tile> a, std::vector<Tile>) { return std::vector<Tile>{a[0]}; });
            }),
            "here: reduce: the function gives 1 values for 2 tiles; it must give one per tile");
  EXPECT_EQ(trace_error([&](Array x, Array) {
              scan({ones_at(x), arange(8)}, 1, [](std::vector<Tile> a, std::vector<Tile> b) {
                return std::vector<Tile>{a[0], b[0]};
              });
            }),
            "here: scan: its region combines i32 but takes or yields another type");
  EXPECT_EQ(
      trace_error([&](Array x, Array) {
        reduce({ones_at(x), arange(4)}, 1, first);
      }),
      "here: reduce: i32[4,8] and i32[4] do not broadcast; extents must be equal or 1, counted from the "
      "last axis");
  EXPECT_EQ(trace_error([&](Array, Array) { reduce(std::vector<Operand>{}, 1, first); }),
            "here: reduce: got no tiles; pass at least one");
  EXPECT_EQ(trace_error([&](Array x, Array) { scan({ones_at(x)}, 3, first); }),
            "here: scan: axis 3 is out of range for f32[4,8]; it has 2 axes");
}

TEST(BadTiles, Ranges) {
  EXPECT_EQ(trace_error([](Array, Array) { arange(4, i32, 0.5); }),
            "here: arange: the literal 0.5 does not fit a tile of i32; cast the tile with astype()");
  EXPECT_EQ(trace_error([](Array x, Array) { arange(4, i64, x.dim(0)); }),
            "here: arange: operands are i64 and i32; cast one with astype()");
  EXPECT_EQ(trace_error([](Array x, Array) { arange(4, f32, 0, ones_at(x)); }),
            "here: arange: step is f32[4,8]; pass a scalar");
  EXPECT_EQ(trace_error([](Array, Array) { arange(0, i32, 1, 2); }),
            "here: arange: size is 0; it must be at least 1");
}

TEST(BadTiles, Subtiles) {
  EXPECT_EQ(
      trace_error([](Array x, Array) {
        extract(ones_at(x), {0, 0}, {3, 8});
      }),
      "here: extract: a sub-tile of shape [3,8] does not divide f32[4,8]; each extent must divide that of "
      "the tile");
  EXPECT_EQ(
      trace_error([](Array x, Array) {
        extract(ones_at(x), {0, 0}, {8});
      }),
      "here: extract: a sub-tile of shape [8] does not fit f32[4,8]; give one extent per axis, or none for "
      "one element");
  EXPECT_EQ(trace_error([](Array x, Array) {
              extract(ones_at(x), {0}, {4, 4});
            }),
            "here: extract: 1 indices for f32[4,8]; give one per axis");
  EXPECT_EQ(trace_error([](Array x, Array) {
              extract(ones_at(x), {0, 1.5}, {4, 4});
            }),
            "here: extract: indices must be integer scalars, got f32");
  EXPECT_EQ(trace_error([](Array x, Array) {
              extract(ones_at(x), {0, 2}, {4, 4});
            }),
            "here: extract: index 2 of axis 1 is out of range for sub-tiles [4,4] of f32[4,8]; there are 2");
  EXPECT_EQ(trace_error([](Array x, Array) {
              insert(ones_at(x), {-1, 0}, 1.0);
            }),
            "here: insert: index -1 of axis 0 is out of range for sub-tiles [] of f32[4,8]; there are 4");
  EXPECT_EQ(trace_error([](Array x, Array) {
              insert(ones_at(x), {0, 0}, zeros({4, 4}, f16));
            }),
            "here: insert: cannot put f16[4,4] into f32[4,8]; cast with astype()");
}

TEST(BadTiles, Bytes) {
  EXPECT_EQ(trace_error([](Array x, Array) { pack_to_bytes(ones_at(x) > 0); }),
            "here: pack_to_bytes: does not take bool; cast with astype() first");
  EXPECT_EQ(trace_error([](Array x, Array) { unpack_from_bytes(ones_at(x), f32); }),
            "here: unpack_from_bytes: takes u8 along one axis, got f32[4,8]; cast or reshape it first");
  EXPECT_EQ(trace_error([](Array, Array) { unpack_from_bytes(zeros({6}, u8), f32); }),
            "here: unpack_from_bytes: cannot divide u8[6] into elements of f32, of 4 bytes each; the size "
            "must be a "
            "multiple");
  EXPECT_EQ(trace_error([](Array, Array) { unpack_from_bytes(zeros({6}, u8), boolean); }),
            "here: unpack_from_bytes: does not give bool; unpack u8 and compare it with 0");
}

TEST(BadTiles, Rows) {
  EXPECT_EQ(trace_error([](Array x, Array) { gather_rows(x, 0, zeros({4}, f32), {0}, {8}); }),
            "here: gather_rows: rows must be an integer tile of one axis, got f32[4]");
  EXPECT_EQ(trace_error([](Array x, Array) { gather_rows(x, 0, arange(4), {}, {8}); }),
            "here: gather_rows: 0 starts and 1 lengths for array<f32,2>; give one of each for each axis "
            "except that "
            "of the rows");
  EXPECT_EQ(trace_error([](Array x, Array) { gather_rows(x, 2, arange(4), {0}, {8}); }),
            "here: gather_rows: axis 2 is out of range for array<f32,2>; it has 2 axes");
  EXPECT_EQ(trace_error([](Array x, Array) { gather_rows(x, 0, arange(4), {0}, {0}); }),
            "here: gather_rows: lengths [0] must be at least 1");
  EXPECT_EQ(trace_error([](Array x, Array) { gather_rows(x, 0, arange(4), {arange(8)}, {8}); }),
            "here: gather_rows: a start is i32[8]; it must be an integer scalar");
  EXPECT_EQ(
      trace_error([](Array x, Array) { scatter_rows(x, 0, arange(3), {0}, ones_at(x)); }),
      "here: scatter_rows: a tile of shape [4,8] does not fit rows i32[3] of array<f32,2>; its extent along "
      "axis 0 is the number of rows");
  EXPECT_EQ(trace_error([](Array x, Array) { scatter_rows(x, 0, arange(3), {0}, arange(8)); }),
            "here: scatter_rows: i32[8] for rows of array<f32,2>; give a tile of as many axes");
  EXPECT_EQ(trace_error([](Array x, Array) { scatter_rows(x, 0, arange(3), {0}, 1.0); }),
            "here: scatter_rows: got a literal; pass a tile");
}

TEST(BadTiles, Elements) {
  EXPECT_EQ(trace_error([](Array, Array y) { scatter(y, {arange(4)}, zeros({3}, f32)); }),
            "here: scatter: f32[3] and i32[4] do not broadcast; extents must be equal or 1, counted from the "
            "last axis");
  EXPECT_EQ(trace_error([](Array x, Array) {
              atomic_add(x, {arange(4), arange(3)}, 1.0);
            }),
            "here: atomic_add: f32[4] and i32[3] do not broadcast; extents must be equal or 1, counted from "
            "the last axis");
  EXPECT_EQ(trace_error([](Array x, Array) { atomic_add(x, {arange(4)}, 1.0); }),
            "here: atomic_add: 1 index tiles for array<f32,2>; give one per axis");
  EXPECT_EQ(trace_error([](Array x, Array) {
              x.tiled_view({4, 8}).atomic_max({0}, 1.0);
            }),
            "here: atomic_max: 1 indices for a view of shape [4,8]; give one per axis");
}

TEST(BadTiles, RawOffsets) {
  EXPECT_EQ(trace_error([](Array, Array y) { load_offset(y, zeros({4}, f32)); }),
            "here: load_offset: the offset is f32[4]; it must be an integer tile");
  EXPECT_EQ(trace_error([](Array, Array y) { load_offset(y, arange(4), arange(4)); }),
            "here: load_offset: the mask is i32[4]; it must be bool of shape [4]");
  EXPECT_EQ(
      trace_error([](Array, Array y) { store_offset(y, arange(4), zeros({3}, f32)); }),
      "here: store_offset: f32[3] and i32[4] do not broadcast; extents must be equal or 1, counted from "
      "the last axis");
}

}  // namespace
}  // namespace tile
