// Masks in instructions: vector registers with AVX2, mask registers with AVX-512.
#pragma once
#include "cpu/jit/encoder.h"

namespace tile::cpu::jit {

// Mask registers of AVX-512. Those from `first_kept` on hold predicates until they are released.
inline constexpr int scratch_mask = 1, column_mask = 2, first_kept = 3, mask_registers = 8;

// Emits to = mask ? yes : no.
inline void blend(Encoder& code, int to, int no, const Operand& yes, int mask, int bits = full_vector) {
  if (code.wide())
    code.vector(avx512::blend, to, no, yes, bits, -1, {mask, false});
  else
    code.vector(avx2::blend, to, no, yes, bits, mask << 4);
}
// Emits a comparison of two vectors whose result is an AVX2 mask in lanes.
inline void predicate_lanes(Encoder& code, const Instruction& instruction, int to, int first,
                            const Operand& second, int immediate = -1) {
  code.vector(instruction, code.wide() ? scratch_mask : to, first, second, full_vector, immediate);
  if (code.wide()) code.vector(avx512::lanes_of_mask, to, 0, Operand::reg(scratch_mask));
}

}  // namespace tile::cpu::jit
