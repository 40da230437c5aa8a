// Rows of the elementwise table, each made of a function object of meaning_rows.h and a lane type.
#pragma once
#include "cpu/interpreter/isa/chunk.h"
#include "cpu/interpreter/isa/parts.h"
#include "cpu/vecmath/bytes.h"

namespace tile::cpu::TILE_ISA {
namespace {

// Maps lanes of T to bool lanes; a group is a vector of bytes.
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

template <class Op, class T, int arity>
constexpr GroupLoop predicate_group{
    predicate_loop<Op, T, arity>, arity, vector_bytes, {sizeof(T), sizeof(T)}, 1};

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

// Rows whose dtypes do not include T have null variants. Cheap rows, such as the ternary ones, use two
// vectors per group.
enum GroupVectors { ROUNDED = 1, SWAPS = 1, EXACT = 2, EXACT_SWAPS = 2, DIRECTED = 2, DIRECTED_SWAPS = 2 };
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

// Applies F(type, dtype) to every lane.
#define TILE_LANES(F) \
  F(uint8_t, u8)      \
  F(int8_t, i8)       \
  F(int16_t, i16)     \
  F(int32_t, i32)     \
  F(int64_t, i64)     \
  F(uint16_t, u16)    \
  F(uint32_t, u32)    \
  F(uint64_t, u64)    \
  F(float, f32)       \
  F(double, f64)

template <class T>
constexpr DType dtype_v = DType::f32;
#define TILE_DTYPE(T, name) \
  template <>               \
  constexpr DType dtype_v<T> = DType::name;
TILE_LANES(TILE_DTYPE)
#undef TILE_DTYPE

// bool and u8 share a lane.
template <class T>
constexpr bool takes(DTypeSet set) {
  return set.has(dtype_v<T>) || (std::is_same_v<T, uint8_t> && set.has(DType::boolean));
}

}  // namespace
}  // namespace tile::cpu::TILE_ISA
