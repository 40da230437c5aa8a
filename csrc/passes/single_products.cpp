// A product of batches with one shared matrix becomes a product of matrices, which tensor cores and the CPU's
// product loops support. A sum that a counted loop carries for such products is carried as a matrix.
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tile {
namespace {

Value* reshaped(Builder& build, Value* x, const Shape& shape) {
  return build.emit("reshape", {x}, {{"shape", shape}});
}
Shape matrix(const Shape& batch) { return {batch.begin() + 1, batch.end()}; }

bool products(Function& function) {
  Rewriter rewrite(function);
  rewrite.run(function.body(), [&](Op& op) {
    if (!op.is("mma") || op.type(0).rank() != 3 || op.type(0).shape[0] != 1) return Keep::yes;
    std::vector<Value*> operands;
    for (Value* x : op.operands) operands.push_back(reshaped(rewrite.build, x, matrix(x->type.shape)));
    Value* product = rewrite.build.emit(*op.primitive, std::move(operands));
    rewrite.replace(op.result(), reshaped(rewrite.build, product, op.result()->type.shape));
    return Keep::no;
  });
  return rewrite.changed;
}

class Carried {
 public:
  explicit Carried(Function& function) : function_(function) { visit(function.body()); }

 private:
  // Inner loops first: their initial values are then reshapes in the outer loop.
  void visit(Block& block) {
    for (size_t i = 0; i < block.ops.size(); ++i) {
      Op& op = *block.ops[i];
      for (auto& region : op.regions) visit(*region);
      if (!op.is("for")) continue;
      for (size_t k = 0; k < op.results.size(); ++k)
        if (fits(op, k)) i += flatten(op, k, block, i);
    }
  }

  // Returns true if the yielded value is a reshaped matrix, and all its uses in the loop reshape it to that
  // matrix.
  static bool fits(const Op& loop, size_t k) {
    const Block& body = loop.region();
    const Value *carried = body.arguments[1 + k], *yielded = body.terminator()->operands[k];
    const Shape& shape = carried->type.shape;
    const auto joins = [&](const Op* op, const Type& from, const Type& to) {
      return op && op->is("reshape") && from.shape == matrix(to.shape);
    };
    if (shape.size() != 3 || shape[0] != 1 || !yielded->definition ||
        !joins(yielded->definition, yielded->definition->type(0), yielded->type))
      return false;
    bool only = true;
    walk(body, [&](const Op& op) {
      if (std::find(op.operands.begin(), op.operands.end(), carried) != op.operands.end())
        only = only && joins(&op, op.results.empty() ? carried->type : op.results[0]->type, carried->type);
    });
    return only;
  }

  // Returns the number of ops inserted before the loop.
  size_t flatten(Op& loop, size_t k, Block& block, size_t at) {
    const Shape batch = loop.results[k]->type.shape;
    Builder build(function_, block);
    build.location = loop.location;
    build.at(block, at);
    Value*& first = loop.operands[3 + k];
    first = reshaped(build, first, matrix(batch));
    Value *carried = loop.region().arguments[1 + k], *result = loop.results[k];
    ValueMap inside;
    walk(loop.region(), [&](const Op& op) {
      if (!op.operands.empty() && op.operands[0] == carried) inside[op.result()] = carried;
    });
    for (Value* value : {carried, result}) value->type = first->type;
    replace_uses(loop.region(), inside);
    Value*& yielded = loop.region().terminator()->operands[k];
    yielded = yielded->definition->operands[0];
    build.at(block, at + 2);
    Value* outside = reshaped(build, result, batch);
    replace_uses(function_.body(), {{result, outside}});
    outside->definition->operands[0] = result;
    return 1;
  }

  Function& function_;
};

}  // namespace

bool single_products(Function& function) {
  if (!products(function)) return false;
  Carried{function};
  return true;
}

}  // namespace tile
