// Rewrites the conjunctions of two comparisons.
#include "cuda/async/limits.h"

#include <memory>
#include <unordered_set>
#include <vector>

#include "ir/build.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

const Op* made_by(const Value* value, const char* name) {
  const Op* op = value->definition;
  return op && op->is(name) ? op : nullptr;
}
Value* before_broadcast(Value* value) {
  const Op* op = made_by(value, "broadcast");
  return op ? op->operands[0] : value;
}

// A mask of a tile [rows, columns].
struct Limits {
  Value* column = nullptr;  // [1, columns]
  Value* all = nullptr;     // column < all, the extent of an array, and so no negative number
  Value* of_row = nullptr;  // column <= of_row, [rows, 1]
};
Limits limits_of(const Op& both) {
  if (!both.is("bitwise_and") || both.type(0).rank() != 2) return {};
  const int64_t rows = both.type(0).shape[0], columns = both.type(0).shape[1];
  for (const size_t first : {0, 1}) {
    const Op *below = made_by(before_broadcast(both.operands[first]), "lt"),
             *at_most = made_by(before_broadcast(both.operands[1 - first]), "le");
    if (!below || !at_most) continue;
    const Limits limits{before_broadcast(below->operands[0]), before_broadcast(below->operands[1]),
                        before_broadcast(at_most->operands[1])};
    if (limits.column == before_broadcast(at_most->operands[0]) && made_by(limits.all, "dim") &&
        limits.column->type.shape == Shape{1, columns} && limits.of_row->type.shape == Shape{rows, 1} &&
        limits.of_row->type.dtype == limits.all->type.dtype)
      return limits;
  }
  return {};
}

void merge(Function& function, Block& block, ValueMap& replaced) {
  for (size_t i = 0; i < block.ops.size(); ++i) {
    Op& op = *block.ops[i];
    for (const auto& region : op.regions) merge(function, *region, replaced);
    const Limits limits = limits_of(op);
    if (!limits.column) continue;
    const Shape& shape = op.type(0).shape;
    Builder build(function, block);
    build.at(block, i);
    build.location = op.location;
    Value* last = build.emit("sub", {limits.all, build.constant(limits.all->type.dtype, 1)});
    Value* least = build.emit("minimum", {limits.of_row, build.broadcast(last, limits.of_row->type.shape)});
    replaced[op.results[0]] =
        build.emit("le", {build.broadcast(limits.column, shape), build.broadcast(least, shape)});
    i = build.position();
  }
}

// Rows and columns of a square tile may read one range. Its layout would be that of either, from which groups
// cannot move elements to the other's.
void give_own_ranges(Function& function, Block& block, std::unordered_set<const Op*>& read) {
  for (size_t i = 0; i < block.ops.size(); ++i) {
    Op& op = *block.ops[i];
    for (const auto& region : op.regions) give_own_ranges(function, *region, read);
    const Op* range = op.is("reshape") ? made_by(op.operands[0], "arange") : nullptr;
    if (!range || read.insert(range).second) continue;
    Builder build(function, block);
    build.at(block, i);
    build.location = range->location;
    op.operands[0] = build.emit(*range->primitive, {}, range->attributes);
    i = build.position();
  }
}

}  // namespace

void merge_limits(Function& function) {
  ValueMap replaced;
  merge(function, function.body(), replaced);
  if (replaced.empty()) return;
  replace_uses(function.body(), replaced);
  const auto remove = [&](Block& block, const auto& self) -> void {
    std::erase_if(block.ops, [&](const std::unique_ptr<Op>& op) {
      for (const auto& region : op->regions) self(*region, self);
      return op->is("bitwise_and") && replaced.count(op->results[0]);
    });
  };
  remove(function.body(), remove);
  std::unordered_set<const Op*> read;
  give_own_ranges(function, function.body(), read);
}

}  // namespace tile::cuda
