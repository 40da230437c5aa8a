// The instructions of the tensor cores, mma.sync, as a table: what staging, plans and text ask.
//
// A product is made of blocks of 16 rows and 8 columns. An instruction is as deep as 8 words of an operand's
// row: 4 bytes each, or one f64. So fragments of all dtypes are alike: of the left operand a thread has words
// lane % 4 and lane % 4 + 4 of rows lane / 4 and lane / 4 + 8, of the right one those words of column lane /
// 4, of the sums columns lane % 4 * 2 and the next of those rows (PTX ISA, matrix fragments of mma.sync).
#pragma once
#include "ir/op.h"

namespace tile::cuda {

struct MmaInstruction {
  static constexpr int rows = 16, columns = 8;  // of a block
  DTypeSet operands;                            // each may be any of them
  DType accumulator;
  int depth;          // k of an instruction
  int whole_columns;  // the product has a multiple of them
  int sums;           // of a thread, that leave registers for fragments
  int arch;           // the oldest that has it
};

// Returns the instruction that multiplies two tiles on an arch; null if none does, or if blocks do not divide
// the extents.
const MmaInstruction* mma_instruction(const Op& mma, int arch);

}  // namespace tile::cuda
