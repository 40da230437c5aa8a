// Masks in instructions: vector registers of AVX2, registers of their own of AVX-512.
#pragma once
#include "cpu/jit/encoder.h"

namespace tile::cpu::jit {

// Mask registers of AVX-512. Those from `first_kept` on hold predicates for as long as they are wanted.
inline constexpr int scratch_mask = 1, column_mask = 2, first_kept = 3, mask_registers = 8;

// to = mask ? yes : no.
inline void blend(Encoder& code, int to, int no, const Operand& yes, int mask, int bits = whole) {
  if (code.wide())
    code.vector(avx512::blend, to, no, yes, bits, -1, {mask, false});
  else
    code.vector(avx2::blend, to, no, yes, bits, mask << 4);
}
// The lanes of a mask, as AVX2 has them, from a predicate of two vectors.
inline void predicate_lanes(Encoder& code, const Instruction& instruction, int to, int first,
                            const Operand& second, int immediate = -1) {
  code.vector(instruction, code.wide() ? scratch_mask : to, first, second, whole, immediate);
  if (code.wide()) code.vector(avx512::lanes_of_mask, to, 0, Operand::reg(scratch_mask));
}

}  // namespace tile::cpu::jit
