// Finds the ops between a product's sum and its stores, and repeats them.
#include "cuda/async/epilogue.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "cuda/layout.h"
#include "cuda/staging.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

class Epilogue {
 public:
  Epilogue(Function& function, Block& block) : function_(function), block_(block), users_(users_of(block)) {}

  void run() {
    for (const auto& op : block_.ops)
      for (size_t i = 0; op->is("for") && i < op->results.size(); ++i)
        if (is_sum_of_products(*op, i) && op->results[i]->type.rank() == 2) sums_.push_back(op->results[i]);
    if (sums_.empty()) return;
    shape_ = sums_[0]->type.shape;
    if (shape_[1] <= panel_columns || shape_[1] % panel_columns != 0) return;
    for (Value* sum : sums_)
      if (sum->type.shape != shape_ || !add_users(sum)) return;
    if (!stores_ || !keeps_order()) return;
    add_other_stores();
    divide();
  }

 private:
  // A tile that a panel has its own part of: all columns of the sum, and all its rows or one.
  bool is_divided(const Value* value) const {
    const Type& type = value->type;
    return type.rank() == 2 && type.shape[1] == shape_[1] &&
           (type.shape[0] == shape_[0] || type.shape[0] == 1);
  }

  bool add_users(const Value* value) {
    const auto found = users_.find(value);
    if (found == users_.end()) return true;
    return std::all_of(found->second.begin(), found->second.end(),
                       [&](const Op* user) { return add(*user); });
  }
  // Adds an op that uses a divided tile, all that it needs and all that uses it. Returns false if it cannot
  // be repeated for panels.
  bool add(const Op& op) {
    if (!with_users_.insert(&op).second) return true;
    members_.insert(&op);
    if (op.parent != &block_ || !op.regions.empty()) return false;
    if (op.is("store")) {
      ++stores_;
      return op.integers("steps") == op.type(1).shape && add_source(op.operands[1]);
    }
    if (!op.traits().elementwise || op.has("shape")) return false;
    return std::all_of(op.operands.begin(), op.operands.end(),
                       [&](const Value* operand) { return add_source(operand); }) &&
           std::all_of(op.results.begin(), op.results.end(),
                       [&](const Value* result) { return is_divided(result) && add_users(result); });
  }
  // Adds the op that makes an operand. It may have other users, which keep the original.
  bool add_source(const Value* value) {
    if (!is_tile(value)) return true;
    if (!is_divided(value)) return value->type.rank() == 2 && value->type.shape[1] == 1;
    if (std::find(sums_.begin(), sums_.end(), value) != sums_.end()) return true;
    const Op* op = value->definition;
    if (!op || op->parent != &block_ || !op->regions.empty()) return false;
    if (!members_.insert(op).second) return true;
    if (op->is("load")) return op->integers("steps") == value->type.shape;
    if (op->is("broadcast")) return add_source(op->operands[0]);
    return op->traits().elementwise && !op->has("shape") && op->results.size() == 1 &&
           std::all_of(op->operands.begin(), op->operands.end(),
                       [&](const Value* operand) { return add_source(operand); });
  }

  // Adds stores of tiles that no sum is part of, for which registers would hold whole tiles of what they
  // share with the others.
  void add_other_stores() {
    const auto after_sums = std::find_if(block_.ops.rbegin(), block_.ops.rend(), [&](const auto& op) {
      return std::any_of(sums_.begin(), sums_.end(),
                         [&](const Value* sum) { return sum->definition == op.get(); });
    });
    for (auto op = after_sums.base(); op != block_.ops.end(); ++op) {
      if (!(*op)->is("store") || with_users_.count(op->get()) || (*op)->type(1).shape != shape_) continue;
      const auto before = std::tuple(members_, with_users_, stores_, last_);
      if (!add(**op) || !keeps_order()) std::tie(members_, with_users_, stores_, last_) = before;
    }
  }

  // Returns true if the ops may move to the last store, and loads behind the stores of earlier panels.
  bool keeps_order() {
    bool begun = false, passed = false;  // an op that loads or stores may not pass
    std::unordered_set<const Value*> stored;
    for (size_t i = 0; i < block_.ops.size(); ++i) {
      const Op& op = *block_.ops[i];
      if (!members_.count(&op)) {
        const Effects effects = effects_of(op);
        passed = passed || (begun && (!effects.writes.empty() || effects.barrier || effects.other)) ||
                 (!stored.empty() && !effects.reads.empty());
        continue;
      }
      begun = begun || op.is("load") || op.is("store");
      if (!op.is("store")) continue;
      last_ = i;
      if (passed || !stored.insert(root_array(op.operands[0])).second) return false;
    }
    return std::all_of(block_.ops.begin(), block_.ops.end(), [&](const auto& op) {
      const bool reads =
          op->is("load") && members_.count(op.get()) && stored.count(root_array(op->operands[0]));
      return !reads || reads_what_is_stored(*op);
    });
  }
  // Returns true if the load takes the elements that the array's store replaces.
  bool reads_what_is_stored(const Op& load) const {
    return std::any_of(members_.begin(), members_.end(), [&](const Op* op) {
      return op->is("store") && op->operands[0] == load.operands[0] &&
             op->type(1).shape == load.results[0]->type.shape &&
             std::equal(op->operands.begin() + 2, op->operands.end(), load.operands.begin() + 1,
                        load.operands.end());
    });
  }

  // Returns the ops to repeat. What does not depend on a sum stands just before its first user, so that
  // registers hold it no longer than they must; but what the epilogue stores is loaded where it was.
  std::vector<Op*> in_order() const {
    std::vector<Op*> order;
    std::unordered_set<const Op*> placed;
    const auto place = [&](Op& op, const auto& self) -> void {
      if (!placed.insert(&op).second) return;
      for (const Value* operand : op.operands)
        if (Op* made = operand->definition; made && members_.count(made)) self(*made, self);
      order.push_back(&op);
    };
    for (const auto& op : block_.ops)
      if (members_.count(op.get()) && (with_users_.count(op.get()) || loads_what_is_stored(*op)))
        place(*op, place);
    return order;
  }
  bool loads_what_is_stored(const Op& op) const {
    return op.is("load") && std::any_of(members_.begin(), members_.end(), [&](const Op* other) {
             return other->is("store") && root_array(other->operands[0]) == root_array(op.operands[0]);
           });
  }

  void divide() {
    const std::vector<Op*> order = in_order();
    Builder build(function_, block_);
    build.at(block_, last_ + 1);
    build.location = order[0]->location;
    Value* zero = build.constant(DType::i32, 0);
    for (int64_t panel = 0; panel < shape_[1] / panel_columns; ++panel) {
      ValueMap made;
      columns_.clear();
      build.location = order[0]->location;
      Value* number = build.constant(DType::i32, panel);
      for (Value* sum : sums_)
        made[sum] = build.emit("extract", {sum, zero, number},
                               {{"panel", panel}, {"shape", Shape{shape_[0], panel_columns}}});
      for (const Op* op : order) repeat(*op, panel, build, made);
    }
    // Nothing uses what was repeated, except loads and broadcasts with other users.
    UseCounts uses = count_uses(block_);
    std::unordered_set<const Op*> unused;
    for (size_t i = order.size(); i-- > 0;) {
      const auto& results = order[i]->results;
      if (std::any_of(results.begin(), results.end(), [&](const Value* value) { return uses[value] > 0; }))
        continue;
      for (const Value* operand : order[i]->operands) --uses[operand];
      unused.insert(order[i]);
    }
    std::erase_if(block_.ops, [&](const auto& op) { return unused.count(op.get()) != 0; });
  }
  // Returns the number of a panel's tile along the columns, given that of the whole tile. It has 64 bits,
  // because tiles far outside of the array have numbers near the limit of 32.
  Value* column(Value* whole, int64_t panel, Builder& build) {
    Value*& first = first_columns_[whole];
    if (!first) {
      Value* wide = build.emit("astype", {whole}, {{"dtype", DType::i64}});
      first = build.emit("mul", {wide, build.constant(DType::i64, shape_[1] / panel_columns)});
    }
    Value*& number = columns_[whole];
    if (!number) number = panel ? build.emit("add", {first, build.constant(DType::i64, panel)}) : first;
    return number;
  }
  void repeat(const Op& op, int64_t panel, Builder& build, ValueMap& made) {
    build.location = op.location;
    std::vector<Value*> operands;
    for (Value* operand : op.operands) {
      const auto found = made.find(operand);
      operands.push_back(found == made.end() ? operand : found->second);
    }
    Attributes attributes = op.attributes;
    const auto narrow = [&](const char* name) {
      Shape shape = op.integers(name);
      shape.back() = panel_columns;
      attributes.set(name, shape);
    };
    if (op.is("broadcast") || op.is("load")) narrow("shape");
    if (op.is("store") || op.is("load")) {
      narrow("steps");
      attributes.set("panel", panel);
      operands.back() = column(operands.back(), panel, build);
    }
    const Op& copy = build.create(*op.primitive, std::move(operands), std::move(attributes));
    for (size_t i = 0; i < op.results.size(); ++i) made[op.results[i]] = copy.results[i];
  }

  Function& function_;
  Block& block_;
  Users users_;
  std::vector<Value*> sums_;
  Shape shape_;
  std::unordered_set<const Op*> members_;     // the ops to repeat
  std::unordered_set<const Op*> with_users_;  // those whose users are members, too
  int stores_ = 0;
  size_t last_ = 0;                   // the position of the last store
  ValueMap first_columns_, columns_;  // of the first panel, and of this one
};

}  // namespace

bool is_sum_of_products(const Op& loop, size_t result) {
  const Op* last = loop.region().terminator()->operands[result]->definition;
  return last && last->is("mma");
}

void divide_epilogues(Function& function) {
  std::vector<Block*> blocks{&function.body()};
  for (size_t i = 0; i < blocks.size(); ++i)
    for (const auto& op : blocks[i]->ops)
      for (const auto& region : op->regions) blocks.push_back(region.get());
  for (Block* block : blocks) Epilogue(function, *block).run();
}

}  // namespace tile::cuda
