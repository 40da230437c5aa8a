// Reverse mode of reductions and scans.
#include <algorithm>

#include "prims/adjoints.h"

namespace tile {
namespace {

std::vector<int64_t> reduced_axes(const Op& op) {
  return op.has("axes") ? op.integers("axes") : std::vector<int64_t>{op.integer("axis")};
}

// Returns a reduced tile repeated along the axes that the op reduces.
Value* spread(Adjoints& adjoints, Value* reduced) {
  const Shape& shape = adjoints.op.type(0).shape;
  Shape open = shape;
  for (int64_t axis : reduced_axes(adjoints.op)) open[static_cast<size_t>(axis)] = 1;
  return adjoints.build.broadcast(adjoints.reshaped(reduced, open), shape);
}
Value* total(Adjoints& adjoints, const char* reduction, Value* x) {
  return spread(adjoints, adjoints.emit(reduction, {x}, {{"axes", reduced_axes(adjoints.op)}}));
}

// Returns the op that the region applies to the accumulated and the new value; empty if it does anything
// else.
std::string_view combined_by(const Op& op) {
  const Block& region = op.region();
  if (op.operands.size() != 1) return {};
  const Value* yielded = region.terminator()->operands[0];
  const Op* step = yielded->definition;
  if (!step || step->parent != &region || step->operands.size() != 2) return {};
  const Value *x = step->operands[0], *y = step->operands[1];
  const Value *old = region.arguments[0], *next = region.arguments[1];
  return (x == old && y == next) || (x == next && y == old) ? step->name() : std::string_view();
}

}  // namespace

void adjoint_of_sum(Adjoints& adjoints) {
  if (Value* g = adjoints.of()) adjoints.add(0, spread(adjoints, g));
}

// Each element's adjoint has the product of the others, which a division gives unless there are zeros.
void adjoint_of_prod(Adjoints& adjoints) {
  Value* g = adjoints.of();
  if (!g) return;
  Value* x = adjoints.cast(adjoints.op.operands[0], g->type.dtype);
  const Type type = x->type;
  const auto number = [&](int value) {
    return adjoints.build.splat(Constant::of(type.dtype, value), type.shape);
  };
  Value* zero = adjoints.emit("eq", {x, number(0)});
  Value* filled = adjoints.emit("where", {zero, number(1), x});
  Value* product = total(adjoints, "reduce_prod", filled);
  Value* zeros = total(adjoints, "reduce_sum", adjoints.emit("where", {zero, number(1), number(0)}));
  Value* others = adjoints.emit("div", {product, filled});  // where x is not 0
  Value* alone = adjoints.emit("where", {adjoints.emit("eq", {zeros, number(1)}), product, number(0)});
  Value* none = adjoints.emit("where", {adjoints.emit("eq", {zeros, number(0)}), others, number(0)});
  Value* part = adjoints.emit("where", {zero, alone, none});
  Value* spread_g = spread(adjoints, g);
  Value* product_of_g = adjoints.emit("mul", {spread_g, part});
  const bool finite = adjoints.is_finite_in_padding(adjoints.op.operands[0]);
  adjoints.add(0, finite ? product_of_g : adjoints.zero_where_zero(spread_g, product_of_g));
}

void adjoint_of_extreme(Adjoints& adjoints) {
  Value* g = adjoints.of();
  if (!g) return;
  const Op& op = adjoints.op;
  Value* hit = adjoints.emit("eq", {op.operands[0], spread(adjoints, op.result())});
  const Type type = Type::tile(g->type.dtype, op.type(0).shape);
  Value* zeros = adjoints.zeros(type);
  Value* one = adjoints.build.splat(Constant::of(type.dtype, 1), type.shape);
  Value* hits = total(adjoints, "reduce_sum", adjoints.emit("where", {hit, one, zeros}));
  Value* share = adjoints.emit("div", {spread(adjoints, g), hits});
  adjoints.add(0, adjoints.emit("where", {hit, share, zeros}));
}

void adjoint_of_reduce(Adjoints& adjoints) {
  const std::string_view step = combined_by(adjoints.op);
  if (step == "add") return adjoint_of_sum(adjoints);
  if (step == "mul") return adjoint_of_prod(adjoints);
  if (step == "maximum" || step == "minimum") return adjoint_of_extreme(adjoints);
  adjoint_of_combine(adjoints);
}

void adjoint_of_scan(Adjoints& adjoints) {
  Value* g = adjoints.of();
  if (combined_by(adjoints.op) != "add") return adjoint_of_combine(adjoints);
  if (!g) return;
  // Each element is in the sums from its place on: the adjoint is the running sum from the other end.
  const Op& op = adjoints.op;
  const auto add = [](Builder& build, const std::vector<Value*>& old, const std::vector<Value*>& next) {
    return std::vector<Value*>{build.emit("add", {old[0], next[0]})};
  };
  const bool reverse = op.integer_or("reverse", 0) == 0;
  adjoints.add(0, emit_scan(adjoints.build, {g}, op.integer("axis"), reverse, add)[0]);
}

}  // namespace tile
