// Wraps the body and replaces the block's indices.
#include "cuda/async/persist.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "cuda/async/ops.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

// Returns true if the op computes the same in every block of the grid.
bool is_invariant(const Op& op, const Block& loop) {
  if (!op.traits().pure() || !op.regions.empty() || op.is("bid") || op.is("num_blocks")) return false;
  const bool tiles = std::any_of(op.results.begin(), op.results.end(), [](const Value* result) {
    return !result->type.is_array() && !result->type.is_scalar();
  });
  return !tiles && std::none_of(op.operands.begin(), op.operands.end(),
                                [&](const Value* operand) { return operand->owner == &loop; });
}

}  // namespace

void make_persistent(Function& function, std::optional<int> pair_axis) {
  Block& body = function.body();
  std::vector<std::unique_ptr<Op>> all = std::exchange(body.ops, {});
  const Location at = all.empty() ? Location{} : all[0]->location;
  std::array<Value*, 3> extents;
  for (Value*& extent : extents) extent = function.add_argument(body, Type::tile(DType::i32), at);

  auto loop = std::make_unique<Op>();
  loop->primitive = &primitive("for");
  loop->location = at;
  loop->regions.push_back(std::make_unique<Block>());
  Block& inside = loop->region();
  inside.parent = loop.get();
  Value* block = function.add_argument(inside, Type::tile(DType::i32), at);

  Builder build(function, inside);
  build.location = at;
  Builder outside(function, body);
  outside.location = at;
  const auto paired = static_cast<size_t>(pair_axis.value_or(-1));
  std::array<Value*, 3> counts = extents;  // of pairs along their axis
  if (pair_axis) counts[paired] = outside.emit("cdiv", {extents[paired], outside.constant(DType::i32, 2)});
  Value *x = build.emit("mod", {block, counts[0]}), *rest = build.emit("floordiv", {block, counts[0]}),
        *y = build.emit("mod", {rest, counts[1]}), *z = build.emit("floordiv", {rest, counts[1]});
  std::array<Value*, 3> indices{x, y, z};
  if (pair_axis) {
    Value* of_pair = outside.emit("bid", {}, {{"axis", int64_t{0}}});
    Value*& index = indices[paired];
    Value* own = build.emit("add", {build.emit("mul", {index, build.constant(DType::i32, 2)}), of_pair});
    build.create(stores_if, {build.emit("lt", {own, extents[paired]})});
    index = build.emit("minimum", {own, build.emit("sub", {extents[paired], build.constant(DType::i32, 1)})});
  }

  ValueMap replaced;
  const auto replace = [&](Block& from, const auto& self) -> void {
    std::erase_if(from.ops, [&](const std::unique_ptr<Op>& op) {
      for (const auto& region : op->regions) self(*region, self);
      const bool is_index = op->is("bid");
      if (!is_index && !op->is("num_blocks")) return false;
      replaced[op->results[0]] = (is_index ? indices : extents)[static_cast<size_t>(op->integer("axis"))];
      return true;
    });
  };
  for (auto& op : all) {
    Builder& to = is_invariant(*op, inside) ? outside : build;
    to.insert(std::move(op));
  }
  replace(inside, replace);
  replace_uses(inside, replaced);
  build.create(primitive("yield"), {});

  const int64_t launched = pair_axis ? 1 : 0;
  Value *first = outside.emit("bid", {}, {{"axis", launched}}),
        *step = outside.emit("num_blocks", {}, {{"axis", launched}}),
        *count = outside.emit("mul", {outside.emit("mul", {counts[0], counts[1]}), counts[2]});
  loop->operands = {first, count, step};
  outside.insert(std::move(loop));
}

bool work_varies(const Function& function) {
  std::unordered_set<const Value*> of_block;
  bool varies = false;
  walk(function.body(), [&](const Op& op) {
    const auto depends = [&](const Value* value) { return of_block.count(value) != 0; };
    if (op.is("bid") || std::any_of(op.operands.begin(), op.operands.end(), depends))
      of_block.insert(op.results.begin(), op.results.end());
    if (!op.is("for") || !(depends(op.operands[0]) || depends(op.operands[1]))) return;
    walk(op.region(), [&](const Op& inner) { varies = varies || inner.is("mma"); });
  });
  return varies;
}

}  // namespace tile::cuda
