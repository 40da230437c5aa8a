// Evaluates elementwise ops on constants if every target computes the same bits.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tile {

bool fold(Function& function) {
  Rewriter rewrite(function);
  rewrite.run(function.body(), [&](Op& op) {
    if (!op.primitive->fold || !op.traits().elementwise || !op.traits().pure()) return Keep::yes;
    std::vector<Constant> operands;
    for (const Value* operand : op.operands) {
      std::optional<Constant> constant = constant_of(operand);
      if (!constant) return Keep::yes;
      operands.push_back(*constant);
    }
    const Type& type = op.result()->type;
    std::optional<Constant> value = op.primitive->fold(operands, type.dtype);
    if (!value) return Keep::yes;
    rewrite.replace(op.result(), rewrite.build.splat(*value, type.shape));
    return Keep::no;
  });
  return rewrite.changed;
}

}  // namespace tile
