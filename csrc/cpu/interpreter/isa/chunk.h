// Runs a loop over whole groups of lanes on the rows of a Chunk. Repeated operands and tails go through
// buffers.
#pragma once
#include "cpu/interpreter/tables.h"
#include "cpu/vecmath/simd.h"

namespace tile::cpu::TILE_ISA {

// The operands' addresses, the bytes to their next group (0 for a repeated operand), and the bytes to their
// next row.
struct Operands {
  const char* at[most_operands];
  int64_t step[most_operands];
  int64_t row[most_operands], out_row, rows = 1;
};
struct GroupLoop {
  void (*run)(const Operands&, char* out, int64_t groups);
  int operands;
  int width;                 // lanes per group, at most one vector of bytes
  int bytes[most_operands];  // of a lane of each operand
  int out_bytes;
};
inline constexpr int group_buffer = vector_bytes * 8;

// Bit k of `repeats` means that operand k holds one lane per row. Each group is read completely before its
// result is stored, so `out` may be an operand with the same lane size.
void run_chunk(const Chunk& chunk, const GroupLoop& loop, unsigned repeats);

// Writes `count` copies of the `bytes`-wide lane at `from`, up to the next multiple of a vector.
void splat_lane(char* to, const char* from, int bytes, int64_t count);

template <class T>
constexpr Lane lane_v = std::is_same_v<T, float>      ? Lane::f32
                        : std::is_same_v<T, double>   ? Lane::f64
                        : std::is_same_v<T, int8_t>   ? Lane::i8
                        : std::is_same_v<T, int16_t>  ? Lane::i16
                        : std::is_same_v<T, int32_t>  ? Lane::i32
                        : std::is_same_v<T, int64_t>  ? Lane::i64
                        : std::is_same_v<T, uint8_t>  ? Lane::u8
                        : std::is_same_v<T, uint16_t> ? Lane::u16
                        : std::is_same_v<T, uint32_t> ? Lane::u32
                                                      : Lane::u64;

template <class T>
TILE_INLINE Vec<T> load_at(const char* p, int index) {
  return Vec<T>::load(reinterpret_cast<const T*>(p) + index * Vec<T>::lanes);
}

// Bodies of loops. A group has `unroll` vectors; Op maps one to four Vec<T> to one.
template <class Op, class T, int arity, int unroll>
void vector_loop(const Operands& in, char* out, int64_t groups) {
  for (int64_t row = 0; row < in.rows; ++row) {
    const char* x = in.at[0] + row * in.row[0];
    const char* y = arity > 1 ? in.at[1] + row * in.row[1] : nullptr;
    const char* z = arity > 2 ? in.at[2] + row * in.row[2] : nullptr;
    const char* w = arity > 3 ? in.at[3] + row * in.row[3] : nullptr;
    const int64_t dx = in.step[0], dy = in.step[1], dz = in.step[2], dw = in.step[3];
    char* to = out + row * in.out_row;
    for (int64_t left = groups; left > 0; --left) {
      Vec<T> r[unroll];
#pragma GCC unroll 4
      for (int u = 0; u < unroll; ++u) {
        if constexpr (arity == 1) r[u] = Op{}(load_at<T>(x, u));
        if constexpr (arity == 2) r[u] = Op{}(load_at<T>(x, u), load_at<T>(y, u));
        if constexpr (arity == 3) r[u] = Op{}(load_at<T>(x, u), load_at<T>(y, u), load_at<T>(z, u));
        if constexpr (arity == 4)
          r[u] = Op{}(load_at<T>(x, u), load_at<T>(y, u), load_at<T>(z, u), load_at<T>(w, u));
      }
#pragma GCC unroll 4
      for (int u = 0; u < unroll; ++u) r[u].store(reinterpret_cast<T*>(to) + u * Vec<T>::lanes);
      x += dx;
      if constexpr (arity > 1) y += dy;
      if constexpr (arity > 2) z += dz;
      if constexpr (arity > 3) w += dw;
      to += unroll * vector_bytes;
    }
  }
}
template <class Op, class T, int arity, int unroll>
constexpr GroupLoop vector_group{vector_loop<Op, T, arity, unroll>,
                                 arity,
                                 unroll* Vec<T>::lanes,
                                 {sizeof(T), sizeof(T), sizeof(T), sizeof(T)},
                                 sizeof(T)};

}  // namespace tile::cpu::TILE_ISA
