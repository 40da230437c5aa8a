// The functions of an instruction set for nodes that work on whole tiles: positions, elements at index tiles,
// atomic changes, and lanes that are dealt to rows.
#pragma once
#include "cpu/interpreter/tables.h"

namespace tile::cpu {

// For x of `size` rows of `inner` lanes: out[i] is the first row whose lane i is the largest or the smallest
// of the numbers there, 0 if all are NaN. `size` and `inner` are at least 1.
struct ArgRow {
  void (*largest)(const char* x, int64_t size, int64_t inner, int32_t* out);
  void (*smallest)(const char* x, int64_t size, int64_t inner, int32_t* out);
};

// One axis of an array that elements are taken from: it has the indices [first, size), `stride` bytes apart.
struct IndexedAxis {
  int64_t first, size, stride;
};
inline constexpr int64_t no_element = INT64_MIN;  // instead of an offset
struct ElementsTable {
  // Adds an axis, with lanes of indices, to n offsets; where an index is outside of the axis, there is no
  // element. `first`: the offsets are not read. Returns true if there are n elements. Null for lanes of
  // floats.
  bool (*locate[lane_count])(const char* index, const IndexedAxis& axis, bool first, int64_t* offsets,
                             int64_t n);
  // Copy n elements of 1, 2, 4 or 8 bytes between offsets of `data` and adjacent ones, in order. Where there
  // is no element, `read` gives 0 bits. `all`: there are n elements.
  void (*read[4])(const char* data, const int64_t* offsets, bool all, char* elements, int64_t n);
  void (*write[4])(char* data, const int64_t* offsets, bool all, const char* elements, int64_t n);
  // Replaces lanes of 1, 2, 4 or 8 bytes by `lane` where there is no element.
  void (*pad[4])(const int64_t* offsets, const char* lane, char* lanes, int64_t n);
};

// Changes n elements at offsets of `data`, one after another: each becomes the combination of itself and a
// lane. Where there is no element, nothing happens. `before`, unless null, gets the old values, or 0.
using ChangeFunction = void (*)(char* data, const int64_t* offsets, const char* lanes, char* before,
                                int64_t n);
struct ChangeFunctions {
  ChangeFunction atomic, plain;  // plain: other threads must not change the elements meanwhile
};
struct AtomicRow {
  // Null for dtypes that lack them.
  ChangeFunctions exchange, add, maximum, minimum, bitwise_and, bitwise_or, bitwise_xor;
};

// to[k][g] = from[g][k] for lanes of 1, 2, 4 or 8 bytes; the groups are `distance` bytes apart, and `to` has
// rows of `to_row` bytes.
using DealFunction = void (*)(const char* from, int64_t distance, int bytes, int64_t groups, int64_t count,
                              char* to, int64_t to_row);

TILE_DECLARE_ISA_TABLE(Span<ArgRow>, arg_rows);        // one per lane, in the order of Lane
TILE_DECLARE_ISA_TABLE(Span<AtomicRow>, atomic_rows);  // one per dtype, in the order of DType
TILE_DECLARE_ISA_TABLE(ElementsTable, elements_table);
TILE_DECLARE_ISA_TABLE(DealFunction, deal_function);

}  // namespace tile::cpu
