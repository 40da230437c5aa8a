// Copies what follows from kept tiles.
#include "derive/remainder.h"

#include <algorithm>

#include "ir/build.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "passes/passes.h"

namespace tile {
namespace {

bool sums_rows(const Op& op) {
  if (!op.is("reduce_sum") || op.type(0).rank() < 2) return false;
  const auto& axes = op.integers("axes");
  return std::any_of(axes.begin(), axes.end(), [&](int64_t axis) { return axis + 1 < op.type(0).rank(); });
}

// Returns true if a value follows from a loop by a sum over rows.
bool follows_from_loop_by_sum(const Value* value, bool summed,
                              std::set<std::pair<const Value*, bool>>& seen) {
  const Op* op = value->definition;
  if (!op || !seen.emplace(value, summed).second) return false;
  if (!op->regions.empty()) return summed;
  summed |= sums_rows(*op);
  return std::any_of(op->operands.begin(), op->operands.end(),
                     [&](const Value* each) { return follows_from_loop_by_sum(each, summed, seen); });
}

class Copier {
 public:
  Copier(const Function& from, KeptTiles& kept)
      : kept_(kept),
        again_(from, nullptr, -1),
        function_(from.name() + "_remainder"),
        build_(function_, function_.body()) {
    function_.attributes() = from.attributes();
    for (Value* parameter : from.body().arguments)
      map_[parameter] = function_.add_argument(function_.body(), parameter->type, {});
    for (int axis = 0; axis < 3; ++axis) function_.add_argument(function_.body(), Type::tile(DType::i32), {});
  }

  bool can_copy(Value* value) {
    if (map_.contains(value) || keeps(value)) return true;
    const Op* op = value->definition;
    if (!op || !op->regions.empty() || !again_.why_not(*op).empty()) return false;
    return std::all_of(op->operands.begin(), op->operands.end(), [&](Value* each) { return can_copy(each); });
  }
  void copy(const Op& store) {
    build_.location = store.location;
    for (Value* operand : store.operands) of(operand);
    build_.insert(clone(store, function_, map_));
  }
  // Stores a tile that is kept for other kernels, if it follows from loops. Returns false if it does not.
  bool keep(size_t number) {
    Value* value = kept_.value(number);
    if (keeps(value) || !can_copy(value)) return false;
    of(value);
    add_arrays(number + 1);
    build_.location = value->definition->location;
    kept_.store(build_, arrays_[number], number, block_number(build_), map_.at(value));
    return true;
  }
  Function finish() {
    for (const char* pass : {"cse", "dce"}) run_pass(pass, function_);
    verify(function_, "take_remainder");
    return std::move(function_);
  }

 private:
  // The results of loops are kept, and nothing that follows from them.
  static bool keeps(const Value* value) {
    const Op* op = value->definition;
    return op && !op->regions.empty() && !value->type.is_array() && value->type.dtype != DType::boolean;
  }
  void add_arrays(size_t count) {
    while (arrays_.size() < count)
      arrays_.push_back(function_.add_argument(function_.body(), kept_.array_type(arrays_.size()), {}));
  }
  void of(Value* value) {
    if (map_.contains(value)) return;
    if (keeps(value)) {
      const size_t number = kept_.number_of(value);
      add_arrays(number + 1);
      map_[value] = kept_.load(build_, arrays_[number], number, block_number(build_));
      return;
    }
    for (Value* operand : value->definition->operands) of(operand);
    build_.insert(clone(*value->definition, function_, map_));
  }

  KeptTiles& kept_;
  Recomputed again_;
  Function function_;
  Builder build_;
  ValueMap map_;
  std::vector<Value*> arrays_;
};

}  // namespace

std::optional<Function> take_remainder(Function& function, const std::vector<DerivedGradient>& gradients,
                                       KeptTiles& kept, std::set<size_t>& stored) {
  bool multiplies = false;
  walk(function.body(), [&](const Op& op) { multiplies |= op.is("mma"); });
  if (!multiplies) return std::nullopt;
  Copier copier(function, kept);
  std::vector<const Op*> taken;
  for (const auto& op : function.body().ops) {
    if (!op->is("store")) continue;
    const Value* root = root_array(op->operands[0]);
    const bool gradient = std::any_of(gradients.begin(), gradients.end(), [&](const DerivedGradient& each) {
      return root == function.body().arguments[each.position];
    });
    std::set<std::pair<const Value*, bool>> seen;
    if (!gradient || !follows_from_loop_by_sum(op->operands[1], false, seen)) continue;
    if (!std::all_of(op->operands.begin(), op->operands.end(),
                     [&](Value* each) { return copier.can_copy(each); }))
      continue;
    copier.copy(*op);
    taken.push_back(op.get());
  }
  if (taken.empty()) return std::nullopt;
  std::erase_if(function.body().ops, [&](const std::unique_ptr<Op>& op) {
    return std::find(taken.begin(), taken.end(), op.get()) != taken.end();
  });
  const size_t count = kept.size();
  for (size_t number = 0; number < count; ++number)
    if (copier.keep(number)) stored.insert(number);
  return copier.finish();
}

}  // namespace tile
