// Finds such masks, and removes what only they used.
#include "cuda/async/join_bounds.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/build.h"
#include "ir/unused.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

Value* without_broadcasts(Value* value) {
  while (value->definition && value->definition->is("broadcast")) value = value->definition->operands[0];
  return value;
}

// x < bound, or x <= bound if `inclusive`.
struct Comparison {
  Value *x, *bound;
  bool inclusive;

  bool is_of_extent() const { return bound->definition && bound->definition->is("dim"); }
};
std::optional<Comparison> comparison_of(Value* mask) {
  const Op* op = without_broadcasts(mask)->definition;
  if (!op || !(op->is("lt") || op->is("le"))) return std::nullopt;
  const DType dtype = op->type(0).dtype;
  if (dtype != DType::i32 && dtype != DType::i64) return std::nullopt;
  return Comparison{without_broadcasts(op->operands[0]), without_broadcasts(op->operands[1]), op->is("le")};
}

// Returns the smallest shape that both broadcast to; none if their ranks differ and neither is a scalar.
std::optional<Shape> joined(const Shape& a, const Shape& b) {
  if (a.empty() || b.empty()) return a.empty() ? b : a;
  if (a.size() != b.size()) return std::nullopt;
  Shape both = a;
  for (size_t i = 0; i < a.size(); ++i) both[i] = std::max(a[i], b[i]);
  return both;
}

class Joiner {
 public:
  explicit Joiner(Function& function) : function_(function) {}

  // Returns true if it has changed something.
  bool block(Block& block) {
    bool changed = false;
    for (size_t i = 0; i < block.ops.size(); ++i) {
      for (auto& region : block.ops[i]->regions) changed |= this->block(*region);
      const size_t added = block.ops[i]->is("for") ? loop(block, i) : 0;
      changed |= added != 0;
      i += added;
    }
    return changed;
  }

 private:
  // Returns how many ops it has added in front of the loop.
  size_t loop(Block& outer, size_t position) {
    Block& body = outer.ops[position]->region();
    const size_t before = outer.ops.size();
    ValueMap replaced;
    for (size_t i = 0; i < body.ops.size(); ++i) {
      Op& op = *body.ops[i];
      if (!op.is("bitwise_and")) continue;
      const auto a = comparison_of(op.operands[0]), b = comparison_of(op.operands[1]);
      if (!a || !b || a->x != b->x || defined_inside(a->bound, body) || defined_inside(b->bound, body))
        continue;
      const Shape& shape = op.results[0]->type.shape;
      const auto smaller = joined(a->bound->type.shape, b->bound->type.shape);
      const bool is_mixed = a->inclusive != b->inclusive;
      if (!smaller || element_count(*smaller) >= element_count(shape) ||
          (is_mixed && !(a->inclusive ? *b : *a).is_of_extent()))
        continue;
      Builder front(function_, outer);
      front.at(outer, position + outer.ops.size() - before);
      front.location = op.location;
      const auto bound_of = [&](const Comparison& comparison) {
        Value* bound = comparison.bound;
        if (is_mixed && !comparison.inclusive)
          bound = front.emit("sub", {bound, front.constant(bound->type.dtype, 1)});
        return front.broadcast(bound, *smaller);
      };
      Value* first = bound_of(*a);
      Value* bound = front.emit("minimum", {first, bound_of(*b)});
      Builder inside(function_, body);
      inside.at(body, i);
      inside.location = op.location;
      Value* x = inside.broadcast(a->x, shape);
      replaced[op.results[0]] =
          inside.emit(a->inclusive || b->inclusive ? "le" : "lt", {x, inside.broadcast(bound, shape)});
      i = inside.position();
    }
    if (replaced.empty()) return 0;
    replace_uses(function_.body(), replaced);
    remove_unused(body);
    return outer.ops.size() - before;
  }

  Function& function_;
};

// Adds the operands that are this value.
void find_uses(Block& block, const Value* value, std::vector<Value**>& uses) {
  for (const auto& op : block.ops) {
    for (Value*& operand : op->operands)
      if (operand == value) uses.push_back(&operand);
    for (auto& region : op->regions) find_uses(*region, value, uses);
  }
}
// Gives each user of a range its own, which costs nothing: rows and columns that come from one range are then
// laid out independently, however many ops stand between them and the mask.
void separate_ranges(Function& function, Block& block) {
  for (size_t i = 0; i < block.ops.size(); ++i) {
    const Op& range = *block.ops[i];
    for (const auto& region : range.regions) separate_ranges(function, *region);
    if (!range.is("arange")) continue;
    std::vector<Value**> uses;
    find_uses(function.body(), range.results[0], uses);
    for (size_t use = 1; use < uses.size(); ++use) {
      Builder build(function, block);
      build.at(block, ++i);
      build.location = range.location;
      *uses[use] = build.emit(*range.primitive, {}, range.attributes);
    }
  }
}

}  // namespace

void join_bounds(Function& function) {
  if (Joiner(function).block(function.body())) separate_ranges(function, function.body());
}

}  // namespace tile::cuda
