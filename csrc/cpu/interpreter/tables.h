// The functions of an instruction set: tables over chunks of lanes. One source, built per ISA.
#pragma once
#include <cstdint>
#include <string_view>

#include "cpu/interpreter/lane.h"
#include "cpu/vecmath/isa.h"

namespace tile::cpu {

inline constexpr int most_operands = 4;

// One call of an elementwise or reducing function: rows x cols lanes. Columns are adjacent in memory, rows
// are row strides apart (bytes; 0 repeats a row). Buffers need no alignment and nothing past cols is touched.
struct Chunk {
  int64_t rows, cols;
  char* out;
  int64_t out_row;
  const char* in[most_operands];
  int64_t in_row[most_operands];
};
using ChunkFunction = void (*)(const Chunk&);

// An elementwise primitive over one lane type. Bit k of the index into `variants`: operand k holds one lane a
// row, repeated along the columns. Variants beyond the arity, and those where all operands repeat, are null.
struct ElementwiseRow {
  std::string_view name;
  Lane lane;  // of the first operand (of `where`: of the second)
  ChunkFunction variants[1 << most_operands];
};

// Reductions of a chunk into an accumulator of the same lane type, which holds the identity at first.
struct ReduceRow {
  std::string_view name;  // reduce_sum, …
  Lane lane;
  ChunkFunction
      columns;         // out[r] = out[r] (+) reduce(in[0][r, :]); out_row is the stride between accumulators
  ChunkFunction rows;  // out[r, c] = out[r, c] (+) in[0][r, c]; out_row may be 0: all rows into one
  // The same of in[0] * in[1], which need not be rounded before it is added. Sums of floats only, else null.
  ChunkFunction product_columns, product_rows;
  void (*identity)(char* out, int64_t count);
  void (*weigh)(char* out, int64_t count,
                int64_t times);  // each lane as if combined with itself `times` times
};

// Moves between memory (any dtype, any byte strides) and lanes.
struct MoveRow {
  DType dtype;  // in memory
  // lanes[r, c] = memory[r * row + c * column]; dense lanes with `lane_row` bytes between rows
  void (*load)(const char* memory, int64_t row, int64_t column, char* lanes, int64_t lane_row, int64_t rows,
               int64_t cols);
  void (*store)(char* memory, int64_t row, int64_t column, const char* lanes, int64_t lane_row, int64_t rows,
                int64_t cols);
  // n adjacent elements, past the caches
  void (*stream)(char* memory, const char* lanes, int64_t n);
  void (*fill)(char* lanes, double value, int64_t count);  // of the lane type; integers from the double
  ChunkFunction
      round;  // lanes rounded to dtype, for dtypes narrower than their lane (f16, bf16, tf32, f8); else null
};

struct CastRow {
  Lane from, to;              // astype between lanes; rounding to a narrower dtype is MoveRow::round
  ChunkFunction variants[2];  // [1]: the operand holds one lane a row
};

template <class T>
struct Span {  // std::span without <span>: these headers are read by per-ISA files
  const T* data;
  int64_t size;
  const T* begin() const { return data; }
  const T* end() const { return data + size; }
};

struct Tables {
  Span<ElementwiseRow> elementwise;
  Span<ReduceRow> reduce;
  Span<MoveRow> move;  // one a dtype, in the order of DType
  Span<CastRow> cast;  // every pair of lanes
};

const Tables& tables();         // of the instruction set chosen at start
const Tables& tables(Isa isa);  // which this machine need not have

// Look-ups by name; null: no such row. Used when a kernel is prepared, never while it runs. Rows beyond the
// primitives: to_bool (x != 0, of any lane: astype to bool), and pairs of f32, "exp(sub)" for exp(x - y),
// with rsub for the second operand less the first; "fma.2(mul)": instead of fma's third operand.
// "f16_rz", "f32_rm" and others: lanes rounded in a direction to what a narrower dtype has.
// "one_plus(tanh)": 1 + tanh(x). "exp.approximate" and others, also in pairs: for results that are rounded to
// 16 bits.
const ElementwiseRow* find_elementwise(std::string_view name, Lane lane, const Tables& from = tables());
const ReduceRow* find_reduce(std::string_view name, Lane lane, const Tables& from = tables());
const CastRow& cast_row(Lane from, Lane to, const Tables& of = tables());
inline const MoveRow& move_row(DType dtype) { return tables().move.data[static_cast<int>(dtype)]; }

}  // namespace tile::cpu
