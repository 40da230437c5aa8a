// Reads and writes whole tiles.
#include "cpu/interpreter/operand.h"

#include "cpu/interpreter/tables.h"

namespace tile::cpu {

WholeOperand WholeOperand::of(LoweringContext& lower, const Value* value) {
  WholeOperand operand;
  operand.shape = value->type.shape;
  operand.dtype = value->type.dtype;
  if (value->type.is_scalar()) {
    operand.scalar = lower.scalar(value);
  } else {
    operand.tile = lower.tile(value);
    lower.need_scratch(static_cast<size_t>(operand.count()) * 8 * 8);
  }
  return operand;
}

const char* WholeOperand::lanes(Frame& frame) const {
  if (scalar >= 0) return frame.scalars[static_cast<size_t>(scalar)].bytes;
  const int rank = static_cast<int>(shape.size());
  TileRef tile_ref = materialise(frame.tiles[static_cast<size_t>(tile)], rank, shape.data(), frame.scratch);
  int64_t bytes = lane_bytes(lane_of(dtype));
  bool dense = true;
  for (int i = rank - 1; i >= 0; --i) {
    dense &= shape[static_cast<size_t>(i)] == 1 || tile_ref.axes[i].stride == bytes;
    bytes *= shape[static_cast<size_t>(i)];
  }
  if (dense) return tile_ref.data;
  char* copy = frame.scratch.take(static_cast<size_t>(bytes));
  copy_lanes(tile_ref, rank, shape.data(), copy);
  return copy;
}

WholeResult WholeResult::of(LoweringContext& lower, const Value* value) {
  WholeResult result;
  result.shape = value->type.shape;
  result.dtype = value->type.dtype;
  if (value->type.is_scalar()) {
    result.scalar = lower.scalar(value);
  } else {
    result.tile = lower.tile(value);
    result.slot = lower.slot(value);
  }
  return result;
}

char* WholeResult::lanes(Frame& frame) const {
  return scalar >= 0 ? frame.scalars[static_cast<size_t>(scalar)].bytes
                     : frame.slots[static_cast<size_t>(slot)];
}

void WholeResult::finish(Frame& frame) const {
  if (scalar < 0)
    frame.tiles[static_cast<size_t>(tile)] =
        dense_lanes(lanes(frame), dtype, static_cast<int>(shape.size()), shape.data());
}

}  // namespace tile::cpu
