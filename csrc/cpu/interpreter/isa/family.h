// Instantiates TILE_ROWS, one file of prims/elementwise, for every lane, as the table TILE_FAMILY. For each
// family CMake writes a file that includes this one.
#pragma once
#include "cpu/interpreter/isa/elementwise.h"
#include "cpu/vecmath/meaning_rows.h"
#include "cpu/vecmath/pairs.h"

namespace tile::cpu::TILE_ISA {
namespace {

template <class T>
constexpr ElementwiseRow rows_of[] = {
#define UNARY(name, set, expression, traits, ...) \
  same_row<meaning::name##_row, T, 1, traits, takes<T>(dtypes::set)>(#name),
#define BINARY(name, set, expression, traits, ...) \
  same_row<meaning::name##_row, T, 2, traits, takes<T>(dtypes::set)>(#name),
#define TERNARY(name, set, expression, traits, ...) \
  same_row<meaning::name##_row, T, 3, traits, takes<T>(dtypes::set)>(#name),
#define UNARY_PREDICATE(name, set, ...) \
  predicate_row<meaning::name##_row, T, 1, takes<T>(dtypes::set)>(#name),
#define PREDICATE(name, set, ...) predicate_row<meaning::name##_row, T, 2, takes<T>(dtypes::set)>(#name),
#include TILE_ROWS
#include "prims/elementwise/end.def"
};

// Unary functions without an instruction use pairs of f32 (pairs.h).
template <class Op, int arity, bool has>
constexpr ElementwiseRow unary_pair(std::string_view name) {
  if constexpr (has)
    return row<vector_group<Op, float, arity, 1>>(name, Lane::f32);
  else
    return {name, Lane::f32, {}};
}
constexpr ElementwiseRow pair_rows[] = {
    {},  // a family without unary functions
#define UNARY(name, set, expression, traits, ...)                                            \
  unary_pair<pairs::OfDifference<meaning::name##_row>, 2, traits == ROUNDED>(#name "(sub)"), \
      unary_pair<pairs::OfSum<meaning::name##_row>, 3, traits == ROUNDED>(#name "(fma)"),
#define UNARY_PREDICATE(...)
#define BINARY(...)
#define PREDICATE(...)
#define TERNARY(...)
#include TILE_ROWS
#include "prims/elementwise/end.def"
};

template <class Row, size_t n>
constexpr Span<Row> span(const Row (&rows)[n]) {
  return {rows, n};
}
constexpr Span<ElementwiseRow> lanes[] = {
#define ROWS(T, name) span(rows_of<T>),
    TILE_LANES(ROWS)
#undef ROWS
        span(pair_rows)};

}  // namespace

extern const Span<Span<ElementwiseRow>> TILE_FAMILY = span(lanes);

}  // namespace tile::cpu::TILE_ISA
