// Follows permuted values to what they are computed from.
#include "derive/transposed_products.h"

#include <unordered_map>

#include "ir/build.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "passes/passes.h"

namespace tile {
namespace {

size_t products_of(const Function& function) {
  size_t count = 0;
  walk(function.body(), [&](const Op& op) { count += op.is("mma"); });
  return count;
}

bool is_computed(const Value* value) {
  const Op* op = value->definition;
  return op && value->type.rank() == 2 &&
         (op->is("mma") || (op->traits().elementwise && !constant_of(value) && !is_loaded_tile(value)));
}

// Computes the transposed operands of the permutes of one block.
class ProductTransposer {
 public:
  ProductTransposer(Function& function, Block& block) : build_(function, block) {}

  // permute: in the block; later ones come later.
  Value* replace(const Op& permute) {
    size_t at = 0;
    while (build_.block().ops[at].get() != &permute) ++at;
    build_.at(build_.block(), at);
    build_.location = permute.location;
    return transposed(permute.operands[0]);
  }

 private:
  Value* transposed(Value* value) {
    if (const auto known = transposed_.find(value); known != transposed_.end()) return known->second;
    return transposed_[value] = make(value);
  }
  Value* make(Value* value) {
    const Op* op = value->definition;
    const Shape shape{value->type.shape[1], value->type.shape[0]};
    if (op && exchanges_axes(*op)) return op->operands[0];
    if (op && op->is("mma"))
      return build_.emit("mma",
                         {operand(op->operands[1]), operand(op->operands[0]), transposed(op->operands[2])});
    if (op && op->is("broadcast")) {
      Value* from = op->operands[0];
      return build_.broadcast(from->type.rank() == 2 ? transposed(from) : from, shape);
    }
    if (op && op->is("load") && op->has("steps") && !op->has("in_bounds")) return load(*op);
    if (op && op->traits().elementwise) {
      std::vector<Value*> operands;
      for (Value* each : op->operands) operands.push_back(each->type.rank() == 2 ? transposed(each) : each);
      return build_.emit(*op->primitive, std::move(operands), op->attributes);
    }
    if (shape[0] == 1 || shape[1] == 1) return build_.emit("reshape", {value}, {{"shape", shape}});
    return build_.emit("permute", {value}, {{"axes", Shape{1, 0}}});
  }

  // Products read an operand from memory either way.
  Value* operand(Value* value) {
    if (!is_loaded_tile(value)) return transposed(value);
    if (exchanges_axes(*value->definition)) return value->definition->operands[0];
    return build_.emit("permute", {value}, {{"axes", Shape{1, 0}}});
  }
  Value* load(const Op& op) {
    Attributes attributes = op.attributes;
    for (const char* name : {"shape", "steps"}) {
      const Shape& extents = op.integers(name);
      attributes.set(name, Shape{extents[1], extents[0]});
    }
    Value* array = build_.emit("permute_array", {op.operands[0]}, {{"axes", Shape{1, 0}}});
    return build_.emit("load", {array, op.operands[2], op.operands[1]}, std::move(attributes));
  }

  Builder build_;
  std::unordered_map<Value*, Value*> transposed_;
};

void transpose_block(Function& function, Block& block) {
  ProductTransposer transposer(function, block);
  std::vector<const Op*> permutes;
  for (const auto& op : block.ops)
    if (exchanges_axes(*op) && is_computed(op->operands[0])) permutes.push_back(op.get());
  ValueMap replaced;
  for (const Op* each : permutes) replaced[each->result()] = transposer.replace(*each);
  replace_uses(block, replaced);
}

}  // namespace

bool exchanges_axes(const Op& op) { return op.is("permute") && op.integers("axes") == Shape{1, 0}; }

bool is_loaded_tile(const Value* value) {
  const Op* op = value->definition;
  while (op && (op->is("permute") || op->is("reshape") || op->is("astype"))) op = op->operands[0]->definition;
  return op && op->traits().reads;
}

bool transpose_products(Function& function) {
  const size_t before = products_of(function);
  Function other = clone(function);
  std::vector<Block*> blocks;
  walk(other.body(), [&](const Op& op) {
    if (op.is("for") || op.is("if"))
      for (const auto& region : op.regions) blocks.push_back(region.get());
  });
  for (Block* block : blocks) transpose_block(other, *block);
  for (const char* pass : {"fold", "cse", "licm", "dce"}) run_pass(pass, other);
  verify(other, "transpose_products");
  if (blocks.empty() || products_of(other) > before) return false;
  function = std::move(other);
  return true;
}

}  // namespace tile
