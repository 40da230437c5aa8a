// Instantiates the rows of prims/elementwise.def for one lane type: elementwise_rows<T>. Include it once a
// file.
#pragma once
#include "cpu/isa/bytes.h"
#include "cpu/isa/chunk.h"
#include "cpu/isa/meaning.h"
#include "cpu/isa/parts.h"

namespace tile::cpu::TILE_ISA {
namespace {

// Lanes of T in, bool lanes out; a group is a vector of bytes.
template <class Op, class T, int arity>
void predicate_loop(const Operands& in, char* out, int64_t groups) {
  for (int64_t row = 0; row < in.rows; ++row) {
    const char* x = in.at[0] + row * in.row[0];
    const char* y = arity > 1 ? in.at[1] + row * in.row[1] : nullptr;
    char* to = out + row * in.out_row;
    for (int64_t left = groups; left > 0; --left) {
      Mask<T> m[sizeof(T)];
#pragma GCC unroll 8
      for (int u = 0; u < static_cast<int>(sizeof(T)); ++u) {
        if constexpr (arity == 1) m[u] = Op{}(load_at<T>(x, u));
        if constexpr (arity == 2) m[u] = Op{}(load_at<T>(x, u), load_at<T>(y, u));
      }
      to_bytes(m).store(reinterpret_cast<uint8_t*>(to));
      x += in.step[0];
      if constexpr (arity > 1) y += in.step[1];
      to += vector_bytes;
    }
  }
}

template <class T>
void where_loop(const Operands& in, char* out, int64_t groups) {
  constexpr int lanes = Vec<T>::lanes;
  for (int64_t row = 0; row < in.rows; ++row) {
    const char *condition = in.at[0] + row * in.row[0], *x = in.at[1] + row * in.row[1],
               *y = in.at[2] + row * in.row[2];
    char* to = out + row * in.out_row;
    for (int64_t left = groups; left > 0; --left) {
      Vec<T> r[2];
      for (int u = 0; u < 2; ++u)
        r[u] = select(from_bytes<T>(condition + u * lanes), load_at<T>(x, u), load_at<T>(y, u));
      for (int u = 0; u < 2; ++u) r[u].store(reinterpret_cast<T*>(to) + u * lanes);
      condition += in.step[0];
      x += in.step[1];
      y += in.step[2];
      to += 2 * vector_bytes;
    }
  }
}

template <class Op, class T, int arity>
constexpr GroupLoop predicate_group{
    predicate_loop<Op, T, arity>, arity, vector_bytes, {sizeof(T), sizeof(T)}, 1};
template <class T>
constexpr GroupLoop where_group{where_loop<T>, 3, 2 * Vec<T>::lanes, {1, sizeof(T), sizeof(T)}, sizeof(T)};

template <const GroupLoop& loop, unsigned repeats>
void variant(const Chunk& chunk) {
  run_chunk(chunk, loop, repeats);
}
template <const GroupLoop& loop>
constexpr ElementwiseRow row(std::string_view name, Lane lane) {
  if constexpr (loop.operands == 1)
    return {name, lane, {variant<loop, 0>}};
  else if constexpr (loop.operands == 2)
    return {name, lane, {variant<loop, 0>, variant<loop, 1>, variant<loop, 2>}};
  else if constexpr (loop.operands == 3)
    return {name,
            lane,
            {variant<loop, 0>, variant<loop, 1>, variant<loop, 2>, variant<loop, 3>, variant<loop, 4>,
             variant<loop, 5>, variant<loop, 6>}};
  else
    return {name,
            lane,
            {variant<loop, 0>, variant<loop, 1>, variant<loop, 2>, variant<loop, 3>, variant<loop, 4>,
             variant<loop, 5>, variant<loop, 6>, variant<loop, 7>, variant<loop, 8>, variant<loop, 9>,
             variant<loop, 10>, variant<loop, 11>, variant<loop, 12>, variant<loop, 13>, variant<loop, 14>}};
}

// Rows whose dtypes lack T have null variants. Cheap rows, the ternary one among them, take two vectors a
// group.
enum GroupVectors { ROUNDED = 1, SWAPS = 1, EXACT = 2, EXACT_SWAPS = 2 };
template <class Op, class T, int arity, int unroll, bool has>
constexpr ElementwiseRow same_row(std::string_view name) {
  if constexpr (has)
    return row<vector_group<Op, T, arity, arity == 3 ? 2 : unroll>>(name, lane_v<T>);
  else
    return {name, lane_v<T>, {}};
}
template <class Op, class T, int arity, bool has>
constexpr ElementwiseRow predicate_row(std::string_view name) {
  if constexpr (has)
    return row<predicate_group<Op, T, arity>>(name, lane_v<T>);
  else
    return {name, lane_v<T>, {}};
}

template <class T>
constexpr DType dtype_v = DType::f32;
template <>
constexpr DType dtype_v<double> = DType::f64;
#define TILE_DTYPE(T, name) \
  template <>               \
  constexpr DType dtype_v<T> = DType::name;
TILE_DTYPE(int8_t, i8)
TILE_DTYPE(int16_t, i16)
TILE_DTYPE(int32_t, i32)
TILE_DTYPE(int64_t, i64)
TILE_DTYPE(uint8_t, u8)
TILE_DTYPE(uint16_t, u16)
TILE_DTYPE(uint32_t, u32)
TILE_DTYPE(uint64_t, u64)
#undef TILE_DTYPE

// bool and u8 share a lane.
template <class T>
constexpr bool takes(DTypeSet set) {
  return set.has(dtype_v<T>) || (std::is_same_v<T, uint8_t> && set.has(DType::boolean));
}

template <class T>
constexpr ElementwiseRow elementwise_rows[] = {
#define UNARY(name, set, expression, traits, ...) \
  same_row<meaning::name##_row, T, 1, traits, takes<T>(dtypes::set)>(#name),
#define BINARY(name, set, expression, traits, ...) \
  same_row<meaning::name##_row, T, 2, traits, takes<T>(dtypes::set)>(#name),
#define TERNARY(name, set, expression, traits, ...) \
  same_row<meaning::name##_row, T, 3, traits, takes<T>(dtypes::set)>(#name),
#define UNARY_PREDICATE(name, set, ...) \
  predicate_row<meaning::name##_row, T, 1, takes<T>(dtypes::set)>(#name),
#define PREDICATE(name, set, ...) predicate_row<meaning::name##_row, T, 2, takes<T>(dtypes::set)>(#name),
#include "prims/elementwise.def"
#undef UNARY
#undef UNARY_PREDICATE
#undef BINARY
#undef PREDICATE
#undef TERNARY
    row<where_group<T>>("where", lane_v<T>),
    predicate_row<meaning::to_bool_row, T, 1, true>("to_bool"),
};
template <class T>
constexpr Span<ElementwiseRow> elementwise_span{elementwise_rows<T>,
                                                sizeof(elementwise_rows<T>) / sizeof(ElementwiseRow)};

}  // namespace
}  // namespace tile::cpu::TILE_ISA
