// Operands and results of nodes that process whole tiles: dense lanes of the full shape.
#pragma once
#include "cpu/interpreter/lowering_context.h"

namespace tile::cpu {

// A tile or scalar operand.
struct WholeOperand {
  int tile = -1, scalar = -1;
  Shape shape;
  DType dtype = DType::f32;

  static WholeOperand of(LoweringContext& lower, const Value* value);
  int64_t count() const { return element_count(shape); }
  // Returns dense lanes of all elements, in the frame or in scratch memory.
  const char* lanes(Frame& frame) const;
};

// A result of dense lanes.
struct WholeResult {
  int tile = -1, scalar = -1, slot = -1;
  Shape shape;
  DType dtype = DType::f32;

  static WholeResult of(LoweringContext& lower, const Value* value);
  int64_t count() const { return element_count(shape); }
  char* lanes(Frame& frame) const;  // memory to fill
  void finish(Frame& frame) const;  // describes the tile, whose lanes are already rounded to the dtype
};

}  // namespace tile::cpu
