// A table of the tensor-core instructions (mma.sync), used by staging, layout plans and emission.
//
// A product is composed of blocks of 16 rows and 8 columns. An instruction's depth is 8 words of an
// operand's row; a word is 4 bytes, or one f64. So the fragments of all dtypes have one shape. A
// thread holds words lane % 4 and lane % 4 + 4: of rows lane / 4 and lane / 4 + 8 of the left
// operand, and of column lane / 4 of the right operand. Of the sums it holds columns lane % 4 * 2
// and the next in the same rows (PTX ISA, matrix fragments of mma.sync).
#pragma once
#include "ir/op.h"

namespace tile::cuda {

struct MmaInstruction {
  static constexpr int rows = 16, columns = 8;  // of a block
  DTypeSet operands;                            // each operand may have any of these dtypes
  DType accumulator;
  int depth;          // k of one instruction
  int whole_columns;  // the product's columns are a multiple of this
  int sums;           // most sums per thread that leave registers for fragments
  int arch;           // the oldest arch that has it
};

// Returns the instruction that multiplies two tiles on an arch, or null if there is none or its
// blocks do not divide the extents.
const MmaInstruction* mma_instruction(const Op& mma, int arch);

}  // namespace tile::cuda
