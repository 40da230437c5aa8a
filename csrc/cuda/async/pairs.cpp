// Compares what two neighbouring blocks of the grid compute.
#include "cuda/async/pairs.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <vector>

#include "cuda/async/ops.h"
#include "cuda/layout.h"
#include "cuda/staging.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

// Returns true if blocks run the loop's iterations equally often.
bool iterates_alike(const Op& loop, const std::unordered_set<const Value*>& differ) {
  const auto& ops = loop.region().ops;
  return std::none_of(loop.operands.begin(), loop.operands.begin() + 3,
                      [&](const Value* bound) { return differ.count(bound) != 0; }) &&
         std::none_of(ops.begin(), ops.end(), [](const auto& op) { return has_jump(*op); });
}

class Difference {
 public:
  Difference(const KernelArrays& arrays, int axis) : arrays_(arrays), axis_(axis) {}

  std::unordered_set<const Value*> of(const Function& function) {
    do {
      changed_ = false;
      visit(function.body(), false);
    } while (changed_);
    return std::move(differ_);
  }

 private:
  bool differs(const Value* value) const { return differ_.count(value) != 0; }
  bool any(const std::vector<Value*>& values) const {
    return std::any_of(values.begin(), values.end(), [&](const Value* value) { return differs(value); });
  }
  void add(const Value* value) { changed_ = differ_.insert(value).second || changed_; }

  // Returns true if blocks that give the op equal operands may get different results.
  bool is_own(const Op& op) const {
    if (op.is("bid")) return op.integer("axis") == axis_;
    if (op.is("load")) return !arrays_.facts(op.operands[0]).constant;
    return !op.traits().pure() && !op.is("for");
  }
  // `apart`: the blocks may not run these ops equally often.
  void visit(const Block& block, bool apart) {
    for (const auto& op : block.ops) {
      if (op->is("for")) {
        visit_loop(*op, apart);
        continue;
      }
      // Other regions than those of loops may give what depends on more than the operands.
      const bool own = apart || is_own(*op) || any(op->operands) || !op->regions.empty();
      for (const auto& region : op->regions) {
        for (const Value* argument : region->arguments) add(argument);
        visit(*region, true);
      }
      if (own)
        for (const Value* result : op->results) add(result);
    }
  }
  void visit_loop(const Op& loop, bool apart) {
    const Block& body = loop.region();
    const bool own = apart || !iterates_alike(loop, differ_);
    if (own) add(body.arguments[0]);
    const Op* terminator = body.terminator();
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const bool given = !terminator || i >= terminator->operands.size() || differs(terminator->operands[i]);
      if (!own && !given && !differs(loop.operands[i + 3])) continue;
      add(body.arguments[i + 1]);
      add(loop.results[i]);
    }
    visit(body, own);
  }

  const KernelArrays& arrays_;
  const int axis_;
  bool changed_ = false;
  std::unordered_set<const Value*> differ_;
};

// Returns true if blocks run the ops of this block of ops equally often.
bool runs_alike(const Block& block, const std::unordered_set<const Value*>& differ) {
  for (const Op* around = block.parent; around; around = around->parent->parent)
    if (!around->is("for") || !iterates_alike(*around, differ)) return false;
  return true;
}
bool is_alike(const Op& load, const std::unordered_set<const Value*>& differ) {
  return std::none_of(load.operands.begin(), load.operands.end(),
                      [&](const Value* operand) { return differ.count(operand) != 0; });
}

// Returns true if all that the kernel does can be left out by storing elsewhere.
bool only_stores(const Function& function) {
  std::unordered_set<const Value*> stored;
  bool holds = true;
  walk(function.body(), [&](const Op& op) {
    if (!op.traits().acts()) return;
    holds = holds && op.is("store") && op.operands.size() > 2;
    if (holds) stored.insert(root_array(op.operands[0]));
  });
  walk(function.body(), [&](const Op& op) {
    if (op.traits().reads) holds = holds && stored.count(root_array(op.operands[0])) == 0;
  });
  return holds;
}

// Returns the bytes of the operands that neighbouring blocks share; 0 if they cannot be pairs.
int64_t shared_bytes(const Function& function, const std::unordered_set<const Value*>& differ) {
  int64_t shared = 0;
  bool alike = true, has_own = false;
  std::unordered_set<const Op*> counted;
  walk(function.body(), [&](const Op& op) {
    if (!op.is("mma")) return;
    alike = alike && runs_alike(*op.parent, differ);
    for (size_t i = 0; i < 2; ++i) {
      const Op* load = mma_operand(op.operands[i]).value->definition;
      if (!load || !load->is("load") || !counted.insert(load).second) continue;
      if (is_alike(*load, differ))
        shared += bytes_of(load->results[0]->type);
      else
        has_own = true;
    }
  });
  return alike && has_own ? shared : 0;
}

}  // namespace

std::optional<int> pair_axis(const Function& function, const KernelArrays& arrays) {
  if (!only_stores(function)) return std::nullopt;
  std::optional<int> best;
  int64_t most = 0;
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t bytes = shared_bytes(function, Difference(arrays, axis).of(function));
    if (bytes > most) best = axis, most = bytes;
  }
  return best;
}

void share_tiles(AsyncPlan& plan, const Function& function, const KernelArrays& arrays) {
  const std::unordered_set<const Value*> differ = Difference(arrays, 0).of(function);
  for (AsyncRing& ring : plan.rings) {
    if (ring.read_by_warps() || !std::all_of(ring.uses.begin(), ring.uses.end(), [&](const RingUse& use) {
          return runs_alike(*use.block, differ);
        }))
      continue;
    for (size_t t = 0; t < ring.tiles.size(); ++t) {
      RingTile& tile = ring.tiles[t];
      tile.shared = tile.has_halves() &&
                    std::all_of(ring.uses.begin(), ring.uses.end(),
                                [&](const RingUse& use) { return is_alike(*use.loads[t], differ); });
      if (tile.shared) plan.cluster = 2;
    }
  }
}

void move_stores_outside(Function& function, Block& groups) {
  Builder build(function, groups);
  const auto move = [&](Block& block, Value* condition, const auto& self) -> void {
    for (size_t i = 0; i < block.ops.size(); ++i) {
      Op& op = *block.ops[i];
      if (op.is("stores_if")) {
        condition = op.operands[0];
        block.ops.erase(block.ops.begin() + static_cast<ptrdiff_t>(i--));
        continue;
      }
      for (const auto& region : op.regions) self(*region, condition, self);
      if (!condition || !(op.is("store") || is_panel_store(op))) continue;
      // A tile of this number begins behind all elements, whatever its extent.
      const int64_t far =
          info(op.type(2).dtype).bytes < 8 ? std::numeric_limits<int32_t>::max() : int64_t{1} << 40;
      const size_t before = block.ops.size();
      build.at(block, i);
      build.location = op.location;
      Value* index = op.operands[2];
      if (info(index->type.dtype).bytes < 4) index = build.emit("astype", {index}, {{"dtype", DType::i32}});
      op.attributes.erase("in_bounds");
      op.operands[2] = build.emit("where", {condition, index, build.constant(index->type.dtype, far)});
      i += block.ops.size() - before;
    }
  };
  move(groups, nullptr, move);
}

}  // namespace tile::cuda
