// Wraps the body and replaces the block's indices.
#include "cuda/async/persist.h"

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_set>

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

// The bounds and the step of the loop over the grid's blocks, and the block of an iteration.
struct Turns {
  Value *first, *end, *step;
  std::function<Value*(Builder& build, Value* index)> block;
};

Turns turns_of(Builder& build, const std::array<Value*, 3>& extents, Work work) {
  Value *own = build.emit("bid", {}, {{"axis", int64_t{0}}}),
        *blocks = build.emit("num_blocks", {}, {{"axis", int64_t{0}}}),
        *count = build.emit("mul", {build.emit("mul", {extents[0], extents[1]}), extents[2]});
  if (work == Work::even) return {own, count, blocks, [](Builder&, Value* index) { return index; }};
  Value *zero = build.constant(DType::i32, 0), *one = build.constant(DType::i32, 1),
        *two = build.constant(DType::i32, 2);
  Value* reversed = build.emit("sub", {build.emit("sub", {blocks, one}), own});
  // The place of this block in a round of all blocks.
  const auto place = [=](Builder& to, Value* round) {
    return to.emit("where", {to.emit("eq", {to.emit("mod", {round, two}), zero}), own, reversed});
  };
  // The last round may have fewer blocks.
  Value *rounds = build.emit("floordiv", {count, blocks}), *rest = build.emit("mod", {count, blocks}),
        *last = build.emit("lt", {place(build, rounds), rest});
  Value* end = build.emit("add", {rounds, build.emit("astype", {last}, {{"dtype", DType::i32}})});
  return {zero, end, one, [=](Builder& to, Value* round) {
            return to.emit("add", {to.emit("mul", {round, blocks}), place(to, round)});
          }};
}

}  // namespace

void make_persistent(Function& function, Work work) {
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
  Value* index = function.add_argument(inside, Type::tile(DType::i32), at);

  for (auto& op : all) {
    Block& to = is_invariant(*op, inside) ? body : inside;
    op->parent = &to;
    for (Value* result : op->results) result->owner = &to;
    to.ops.push_back(std::move(op));
  }

  Builder outside(function, body);
  outside.location = at;
  const Turns turns = turns_of(outside, extents, work);
  Builder build(function, inside);
  build.at(inside, 0);
  build.location = at;
  Value* block = turns.block(build, index);
  Value *x = build.emit("mod", {block, extents[0]}), *rest = build.emit("floordiv", {block, extents[0]}),
        *y = build.emit("mod", {rest, extents[1]}), *z = build.emit("floordiv", {rest, extents[1]});
  const std::array<Value*, 3> indices{x, y, z};

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
  replace(inside, replace);
  replace_uses(inside, replaced);
  build.to_end(inside);
  build.create(primitive("yield"), {});

  loop->operands = {turns.first, turns.end, turns.step};
  outside.insert(std::move(loop));
}

Work work_of(const Function& function) {
  std::unordered_set<const Value*> of_block, of_data;
  Work work = Work::even;
  walk(function.body(), [&](const Op& op) {
    const auto depends = [&](const std::unordered_set<const Value*>& on) {
      return std::any_of(op.operands.begin(), op.operands.end(),
                         [&](const Value* operand) { return on.count(operand) != 0; });
    };
    if (op.is("bid") || depends(of_block)) of_block.insert(op.results.begin(), op.results.end());
    if (depends(of_data) || (op.is("load") && depends(of_block)))
      of_data.insert(op.results.begin(), op.results.end());
    if (!op.is("for")) return;
    const auto has_bound = [&](const std::unordered_set<const Value*>& in) {
      return in.count(op.operands[0]) || in.count(op.operands[1]);
    };
    if (!has_bound(of_block)) return;
    walk(op.region(), [&](const Op& inner) {
      if (inner.is("mma")) work = std::max(work, has_bound(of_data) ? Work::by_data : Work::by_index);
    });
  });
  return work;
}

}  // namespace tile::cuda
