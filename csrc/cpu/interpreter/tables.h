// The functions of an instruction set: tables of functions over chunks of lanes. One source is compiled for
// each ISA.
#pragma once
#include <cstdint>
#include <string_view>

#include "cpu/interpreter/lane.h"
#include "cpu/vecmath/isa.h"

namespace tile::cpu {

inline constexpr int most_operands = 4;

// One call of an elementwise or reducing function on rows x cols lanes. Columns are adjacent in memory; rows
// are row strides apart (in bytes; 0 repeats a row). Buffers need no alignment, and nothing past cols is
// accessed.
struct Chunk {
  int64_t rows, cols;
  char* out;
  int64_t out_row;
  const char* in[most_operands];
  int64_t in_row[most_operands];
};
using ChunkFunction = void (*)(const Chunk&);

// An elementwise primitive over one lane type. Bit k of the index into `variants` means that operand k holds
// one lane per row, repeated along the columns. Variants beyond the arity, and those in which all operands
// repeat, are null.
struct ElementwiseRow {
  std::string_view name;
  Lane lane;  // of the first operand (of `where`: of the second)
  ChunkFunction variants[1 << most_operands];
};

// A reduction of a chunk into an accumulator of the same lane type, which initially holds the identity.
struct ReduceRow {
  std::string_view name;  // reduce_sum, …
  Lane lane;
  // out[r] = out[r] (+) reduce(in[0][r, :]); out_row is the stride between accumulators.
  ChunkFunction columns;
  // out[r, c] = out[r, c] (+) in[0][r, c]; out_row may be 0: all rows into one.
  ChunkFunction rows;
  // The same for in[0] * in[1], whose product need not be rounded before it is added. Only for sums of
  // floats, else null.
  ChunkFunction product_columns, product_rows;
  void (*identity)(char* out, int64_t count);
  // Changes each lane as if its value were accumulated `times` times.
  void (*weigh)(char* out, int64_t count, int64_t times);
};

// Moves between memory (any dtype, any byte strides) and lanes.
struct MoveRow {
  DType dtype;  // in memory
  // lanes[r, c] = memory[r * row + c * column]; dense lanes with `lane_row` bytes between rows
  void (*load)(const char* memory, int64_t row, int64_t column, char* lanes, int64_t lane_row, int64_t rows,
               int64_t cols);
  void (*store)(char* memory, int64_t row, int64_t column, const char* lanes, int64_t lane_row, int64_t rows,
                int64_t cols);
  // Stores n adjacent elements past the caches.
  void (*stream)(char* memory, const char* lanes, int64_t n);
  // Fills lanes of the lane type; integers are converted from the double.
  void (*fill)(char* lanes, double value, int64_t count);
  ChunkFunction round;  // rounds lanes to dtypes narrower than their lane (f16, bf16, tf32, f8); else null
};

struct CastRow {
  Lane from, to;              // astype between lanes; rounding to a narrower dtype is MoveRow::round
  ChunkFunction variants[2];  // [1]: the operand holds one lane per row
};

template <class T>
struct Span {  // std::span without <span>: per-ISA files include this header
  const T* data;
  int64_t size;
  const T* begin() const { return data; }
  const T* end() const { return data + size; }
};

struct Tables {
  Span<ElementwiseRow> elementwise;
  Span<ReduceRow> reduce;
  Span<MoveRow> move;  // one per dtype, in the order of DType
  Span<CastRow> cast;  // every pair of lanes
};

const Tables& tables();         // for the instruction set chosen at startup
const Tables& tables(Isa isa);  // this machine need not support it

// Look-ups by name, for use when a kernel is compiled; they return null if there is no such row. Besides the
// primitives there are these rows. to_bool: x != 0, of any lane, for astype to bool. Pairs of f32 such as
// "exp(sub)" for exp(x - y); rsub subtracts the first operand from the second, and "fma.2(mul)" replaces
// fma's third operand. Directed rounding of lanes to the values of a narrower dtype, such as "f16_rz" and
// "f32_rm". "one_plus(tanh)": 1 + tanh(x). Functions for results that are rounded to 16 bits, such as
// "exp.approximate", also in pairs.
const ElementwiseRow* find_elementwise(std::string_view name, Lane lane, const Tables& from = tables());
const ReduceRow* find_reduce(std::string_view name, Lane lane, const Tables& from = tables());
const CastRow& cast_row(Lane from, Lane to, const Tables& of = tables());
inline const MoveRow& move_row(DType dtype) { return tables().move.data[static_cast<int>(dtype)]; }

}  // namespace tile::cpu
