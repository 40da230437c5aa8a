// Storage narrowing. First, conversions sink into loops, from the last op of a block to the first, so that a
// chain follows its last op. Then each block is processed in order.
#include "cuda/storage_narrowing.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "cuda/array_facts.h"
#include "cuda/lowering_rule.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

constexpr std::string_view here = "here";

bool widens(const Op& op) {
  if (!op.is("astype") || op.results[0]->type.is_scalar()) return false;
  const DType from = op.type(0).dtype, to = op.results[0]->type.dtype;
  return is_floating(from) && info(from).bytes == 2 && info(to).bytes > 2;
}
// Returns true for a widening conversion, or a reshape of one.
bool sinks(const Op& op) {
  if (op.is("reshape")) return op.operands[0]->definition && sinks(*op.operands[0]->definition);
  return widens(op);
}

// Returns the loop of this block that contains all uses of the value, or null.
Op* only_loop(const Block& block, const Value* value) {
  Op* loop = nullptr;
  for (const auto& op : block.ops) {
    if (std::count(op->operands.begin(), op->operands.end(), value)) return nullptr;
    bool used = false;
    for (const auto& region : op->regions)
      walk(*region, [&](const Op& inner) {
        used = used || std::count(inner.operands.begin(), inner.operands.end(), value);
      });
    if (!used) continue;
    if (loop || !(op->is("for") || op->is("loop"))) return nullptr;
    loop = op.get();
  }
  return loop;
}

void sink(Block& block) {
  for (const auto& op : block.ops)
    for (const auto& region : op->regions) sink(*region);
  for (size_t i = block.ops.size(); i-- > 0;) {
    if (!sinks(*block.ops[i])) continue;
    Op* loop = only_loop(block, block.ops[i]->results[0]);
    if (!loop) continue;
    std::unique_ptr<Op> op = std::move(block.ops[i]);
    block.ops.erase(block.ops.begin() + static_cast<ptrdiff_t>(i));
    Block& body = loop->region();
    op->parent = &body;
    op->results[0]->owner = &body;
    if (widens(*op)) op->attributes.set(here, int64_t{1});
    body.ops.insert(body.ops.begin(), std::move(op));
  }
}

// After a reduction, recomputes values that are cheaper to compute than to keep.
class Repeater {
 public:
  Repeater(Function& function, const KernelArrays& arrays, Block& block, bool all)
      : function_(function), arrays_(arrays), block_(block), all_(all) {}

  void run() {
    if (all_ && block_.parent) raise_loads();
    if (all_) join_reductions();
    std::vector<std::unique_ptr<Op>> ops = std::exchange(block_.ops, {});
    for (size_t i = 0; i < ops.size(); ++i) {
      std::unique_ptr<Op>& op = ops[i];
      for (const auto& region : op->regions) Repeater(function_, arrays_, *region, all_).run();
      for (Value*& operand : op->operands) operand = near(operand);
      for (Value* result : op->results) made_[result] = part_;
      // Adjacent reductions are all summed in registers before threads exchange anything.
      const bool last = reduces(*op) && !(i + 1 < ops.size() && reduces(*ops[i + 1]));
      block_.ops.push_back(std::move(op));
      part_ += last;
    }
  }

 private:
  static bool reduces(const Op& op) { return cuda::reduces(op) && large(op.operands[0]); }
  // In a loop, moves small loads of constant arrays, and the scalars that index them, to the start of the
  // iteration: after a reduction the kernel would wait for them.
  void raise_loads() {
    auto& ops = block_.ops;
    const auto raised = [&](const Op& op) {
      if (op.is("load")) return small(op.results[0]) && arrays_.facts(op.operands[0]).constant;
      return op.traits().pure() && op.regions.empty() && !op.results.empty() &&
             op.results[0]->type.shape.empty();
    };
    for (size_t i = 0; i < ops.size(); ++i) {
      if (!raised(*ops[i])) continue;
      size_t to = i;
      const auto needed = [&](const Op& op) {
        return std::any_of(op.results.begin(), op.results.end(), [&](const Value* result) {
          return std::count(ops[i]->operands.begin(), ops[i]->operands.end(), result) != 0;
        });
      };
      while (to > 0 && !needed(*ops[to - 1])) --to;
      std::rotate(&ops[to], &ops[i], &ops[i] + 1);
    }
  }
  // Moves a reduction and its inputs before an earlier reduction that it does not depend on: adjacent
  // reductions share a barrier.
  void join_reductions() {
    auto& ops = block_.ops;
    for (size_t first = 0; first < ops.size(); ++first) {
      if (!cuda::reduces(*ops[first])) continue;
      for (size_t i = first + 1; i < ops.size(); ++i)
        if (cuda::reduces(*ops[i]) && reduces(*ops[i]) == reduces(*ops[first]))
          if (const auto moved = needed_after(first, i); !moved.empty()) {
            std::vector<std::unique_ptr<Op>> front, back;
            for (size_t k = first; k <= i; ++k)
              (moved.count(ops[k].get()) ? front : back).push_back(std::move(ops[k]));
            std::move(back.begin(), back.end(), std::move(front.begin(), front.end(), &ops[first]));
            first += front.size();
            i = first;
          }
    }
  }
  // Returns op `last` and the ops after op `first` that it needs; none if it depends on `first`, or if it
  // reads memory that is written in between.
  std::unordered_set<const Op*> needed_after(size_t first, size_t last) const {
    std::unordered_set<const Op*> needed{block_.ops[last].get()};
    const bool written = std::any_of(&block_.ops[first], &block_.ops[last], [](const auto& op) {
      return op->traits().writes || op->traits().barrier || !op->regions.empty();
    });
    const auto moves = [&](const Op& op) {
      const auto unchanged = [&] { return !written || arrays_.facts(op.operands[0]).constant; };
      return op.regions.empty() && (op.traits().pure() || (op.is("load") && unchanged()));
    };
    for (size_t k = last + 1; k-- > first;) {
      const Op* op = block_.ops[k].get();
      if (!needed.count(op)) continue;
      if (k == first || !moves(*op)) return {};
      for (const Value* operand : op->operands)
        if (operand->definition && operand->definition->parent == &block_) needed.insert(operand->definition);
    }
    return needed;
  }

  static bool large(const Value* value) { return element_count(value->type.shape) >= 2048; }
  // Returns true for scalars, broadcast values and tiles of at most 64 elements.
  static bool small(const Value* value) {
    const Op* definition = value->definition;
    if (definition && definition->is("broadcast")) value = definition->operands[0];
    return value->type.is_scalar() || element_count(value->type.shape) <= 64;
  }
  bool cheap(const Value* value) {
    const auto [known, fresh] = cheap_.emplace(value, false);
    bool& answer = known->second;  // the reference stays valid when entries are added
    if (fresh) answer = cheap(value, 2);
    return answer;
  }
  bool cheap(const Value* value, int depth) {
    const Op* op = value->definition;
    if (!op || op->parent != &block_ || !large(value)) return false;
    if (widens(*op)) return true;
    if (rounds(*op)) return false;
    if (all_ && op->is("broadcast")) return !large(op->operands[0]);
    if (all_ && (op->is("reshape") || op->traits().elementwise))
      return std::all_of(op->operands.begin(), op->operands.end(),
                         [&](const Value* operand) { return small(operand) || cheap(operand); });
    if (depth == 0 || !(op->is("add") || op->is("sub") || op->is("mul") || op->is("fma"))) return false;
    return std::all_of(op->operands.begin(), op->operands.end(),
                       [&](const Value* operand) { return small(operand) || cheap(operand, depth - 1); });
  }

  // Returns the value itself, or its copy in this part of the block.
  Value* near(Value* value) {
    const auto made = made_.find(value);
    if (value->type.is_array() || made == made_.end() || made->second == part_ || !cheap(value)) return value;
    Value*& copy = copies_[{value, part_}];
    if (copy) return copy;
    ValueMap map;
    for (Value* operand : value->definition->operands) map[operand] = near(operand);
    Op& op = Builder(function_, block_).insert(clone(*value->definition, function_, map));
    copy = op.result();
    made_[copy] = part_;
    if (widens(op)) op.attributes.set(here, int64_t{1});
    return copy;
  }

  Function& function_;
  const KernelArrays& arrays_;
  Block& block_;
  const bool all_;
  int part_ = 0;
  std::unordered_map<const Value*, int> made_;
  std::unordered_map<const Value*, bool> cheap_;  // cached: values have many users
  std::map<std::pair<const Value*, int>, Value*> copies_;
};

}  // namespace

Function with_narrow_storage(const Function& function, bool all) {
  Function copy = clone(function);
  sink(copy.body());
  const KernelArrays arrays(copy);
  Repeater(copy, arrays, copy.body(), all).run();
  return copy;
}

bool rounds(const Op& op) {
  if (!op.is("astype") || op.results[0]->type.is_scalar()) return false;
  const DType from = op.type(0).dtype, to = op.results[0]->type.dtype;
  return is_floating(to) && info(to).bytes == 2 && info(from).bytes > 2;
}

bool stays_here(const Op& conversion) { return conversion.has(here); }

}  // namespace tile::cuda
