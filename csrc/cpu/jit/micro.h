// Micro-operations: the intermediate form of a fused loop's arithmetic. Each works on a vector of 32-bit
// lanes; a mask has lanes of all ones or all zeros.
#pragma once
#include <cstdint>
#include <vector>

#include "cpu/jit/encoder.h"

namespace tile::cpu::jit {

enum class Micro : uint8_t {
  constant,  // immediate: the bits of a lane
  table,     // AVX-512: 2^(k/16 + shift) in lane k; immediate: the shift
  column,    // immediate: an input with one lane per column
  words,     // likewise, with the input's raw 16 bits in the lower half of each lane
  scalar,    // immediate: an input with one lane per row
  add,
  sub,
  mul,
  div,
  min,  // b if either operand is NaN
  max,
  bit_and,
  bit_or,
  bit_xor,
  compare,  // immediate: the predicate
  add_integer,
  sub_integer,
  mul_integer,
  min_integer,
  max_integer,
  greater_integer,
  equal_integer,
  shift_left,  // immediate: the count
  shift_right,
  shift_right_zeros,
  scale,   // AVX-512: a 2^floor(b)
  lookup,  // AVX-512: the lanes of b selected by a's low bits
  range,   // AVX-512; immediate: one of RangeMode
  square_root,
  round,  // immediate: the mode
  from_integer,
  to_half,  // 16-bit lanes in the lower half
  from_half,
  extend,          // widens the 16-bit lanes of the lower half to 32-bit lanes
  to_bf16,         // AVX512_BF16; as to_half; subnormals become 0
  fused,           // a * b + c
  fused_negative,  // c - a * b
  select,          // a: mask, b: yes, c: no
};

enum RangeMode : uint8_t { range_nearer_0 = 2, range_lesser = 4, range_greater = 5 };

struct MicroOp {
  Micro micro;
  int operands[3] = {-1, -1, -1};
  uint32_t immediate = 0;
  bool operator==(const MicroOp&) const = default;
};

// The form of a micro-operation's instruction.
enum class Form : uint8_t { source, binary, predicate, unary, shift, narrowing, fused, select };
// The NaN that results. `arithmetic`: the first NaN operand made quiet, or the default NaN, whose low half is
// zero. `picks`: one of the last two operands unchanged. `signs`: the first operand, if the second is a
// constant that can only change its sign bit.
enum class NanOf : uint8_t { any, never, arithmetic, picks, signs };
struct MicroRow {
  Micro micro;
  Form form;
  Instruction instruction;  // for `fused`: the form that accumulates into the addend's register
  bool commutes = false, has_immediate = false;
  NanOf nan = NanOf::any;
};
const MicroRow& row_of(Micro micro);

inline int operand_count(const MicroOp& op) {
  int count = 0;
  while (count < 3 && op.operands[count] >= 0) ++count;
  return count;
}

}  // namespace tile::cpu::jit
