// Operands and results of nodes that work on whole tiles: dense lanes of the full shape.
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
  // Dense lanes of every element; may point into the frame or scratch.
  const char* lanes(Frame& frame) const;
};

// Where a result of dense lanes goes.
struct WholeResult {
  int tile = -1, scalar = -1, slot = -1;
  Shape shape;
  DType dtype = DType::f32;

  static WholeResult of(LoweringContext& lower, const Value* value);
  int64_t count() const { return element_count(shape); }
  char* lanes(Frame& frame) const;  // to be filled
  void finish(Frame& frame) const;  // describes the tile; its lanes are rounded to the dtype already
};

}  // namespace tile::cpu
