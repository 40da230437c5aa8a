// The table of instructions, and the selection of a product's instruction.
#include "cuda/mma_instruction.h"

namespace tile::cuda {
namespace {

constexpr DTypeSet f16{DType::f16}, bf16{DType::bf16}, tf32{DType::tf32}, f64{DType::f64},
    bytes{DType::i8, DType::u8}, f8{DType::f8e4m3, DType::f8e5m2};

// Columns: operands, accumulator, depth, whole_columns, sums, arch. Byte operands that cross k are read in
// pairs of columns. tf32 and 8-bit floats are converted in registers: tf32 from f32, 8-bit floats to f16 on
// arches that multiply f16.
constexpr MmaInstruction instructions[] = {
    {f16, DType::f32, 16, 8, 128, 80}, {bf16, DType::f32, 16, 8, 128, 80},
    {tf32, DType::f32, 8, 8, 64, 80},  {bytes, DType::i32, 32, 16, 128, 80},
    {f8, DType::f32, 32, 16, 64, 89},  {f64, DType::f64, 8, 8, 32, 80},
};

}  // namespace

const MmaInstruction* mma_instruction(const Op& mma, int arch) {
  const Type &x = mma.type(0), &y = mma.type(1), &sums = mma.type(2);
  if (x.rank() != 2) return nullptr;
  for (const MmaInstruction& each : instructions) {
    if (!each.operands.has(x.dtype) || !each.operands.has(y.dtype) || sums.dtype != each.accumulator)
      continue;
    const bool fits = x.shape[0] % MmaInstruction::rows == 0 && x.shape[1] % each.depth == 0 &&
                      y.shape[1] % each.whole_columns == 0;
    return fits && arch >= each.arch ? &each : nullptr;
  }
  return nullptr;
}

}  // namespace tile::cuda
