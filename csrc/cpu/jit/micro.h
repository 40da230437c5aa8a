// Micro-operations: what a fused loop's arithmetic is made of before it becomes instructions. Each works on a
// vector of 32-bit lanes; a mask is lanes of all ones or all zeros.
#pragma once
#include <cstdint>
#include <vector>

#include "cpu/jit/encoder.h"

namespace tile::cpu::jit {

enum class Micro : uint8_t {
  constant,  // immediate: the bits of a lane
  table,     // of AVX-512: 2^(k/16 + shift) in lane k; immediate: the shift
  column,    // immediate: an input with a lane a column
  words,     // immediate: likewise, an input whose 16 raw bits from memory fill the lower half of each lane
  scalar,    // immediate: an input with a lane a row
  add,
  sub,
  mul,
  div,
  min,  // of a and b: b where either is NaN
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
  scale,   // of AVX-512: a 2^b of the whole number below b
  lookup,  // of AVX-512: the lanes of b that a's low bits name
  range,   // of AVX-512; immediate: what is chosen, one of RangeMode
  square_root,
  round,  // immediate: the mode
  from_integer,
  to_half,  // 16-bit lanes in the lower half
  from_half,
  extend,          // widens the 16-bit lanes of the lower half to 32-bit lanes
  to_bf16,         // of AVX512_BF16, likewise; denormal numbers become 0
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

// How a micro-operation is written as an instruction.
enum class Form : uint8_t { source, binary, predicate, unary, shift, narrowing, fused, select };
// What NaN comes out: arithmetic makes the first operand's a quiet one, or makes one with no bit below;
// `picks` is one of the last two operands as it stands, `signs` the first where a constant has no other bit
// to change.
enum class NanOf : uint8_t { any, never, arithmetic, picks, signs };
struct MicroRow {
  Micro micro;
  Form form;
  Instruction instruction;  // of `fused`: the form that multiplies into the addend's register
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
