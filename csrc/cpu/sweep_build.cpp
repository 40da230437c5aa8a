// Numbers the values of a sweep and writes its steps.
#include "cpu/sweep_build.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "cpu/steps.h"

namespace tile::cpu {

bool in_sweep(const Op& op) {
  if (op.is("store")) return true;
  if (op.operands.empty() || op.type(0).is_array() || op.type(0).is_scalar()) return false;
  return op.traits().elementwise || find_reduce(op.name(), lane_of(op.type(0).dtype)) != nullptr;
}

const Shape& sweep_shape(const Op& op) { return op.type(op.is("store") ? 1 : 0).shape; }

namespace {

class SweepBuilder {
 public:
  SweepBuilder(Lower& lower, const std::vector<const Op*>& ops, Units& before, Sweep& sweep)
      : lower_(lower), ops_(ops), before_(before), sweep_(sweep) {
    // Inputs are numbered first.
    for (const Op* op : ops)
      for (const Value* result : op->results)
        if (op->traits().elementwise) made_.emplace(result, -1);
    for (const Op* op : ops) {
      size_t from = op->is("store") ? 1 : 0, to = op->is("store") ? 2 : op->operands.size();
      for (size_t i = from; i < to; ++i) add_input(op->operands[i]);
    }
  }

  void build(const std::function<bool(const Value*)>& needed_outside) {
    find_contractions(needed_outside);
    for (const Op* op : ops_) {
      if (contracted_.count(op)) continue;
      if (op->is("store"))
        sweep_.stores.push_back({number(op->operands[1]), lower_.address(*op, 2, op->type(1).shape)});
      else if (op->traits().elementwise)
        elementwise(*op, needed_outside);
      else
        reduction(*op);
    }
  }

 private:
  void add_input(const Value* value) {
    if (made_.count(value) || !numbers_.emplace(value, static_cast<int>(sweep_.inputs.size())).second) return;
    sweep_.inputs.push_back(lower_.input(value, before_));
    sweep_.lanes.push_back(lane_of(value->type.dtype));
  }
  int number(const Value* value) const { return numbers_.at(value); }

  // x * y + z rounded once, where nothing else reads the product: a step less. Allowed in f32 and f64, whose
  // lanes are the values themselves.
  void find_contractions(const std::function<bool(const Value*)>& needed_outside) {
    auto uses = [&](const Value* value) {
      int count = needed_outside(value) ? 2 : 0;
      for (const Op* op : ops_) count += static_cast<int>(std::count(op->operands.begin(), op->operands.end(), value));
      return count;
    };
    for (const Op* op : ops_) {
      const DType dtype = op->is("add") ? op->results[0]->type.dtype : DType::i32;
      if (dtype != DType::f32 && dtype != DType::f64) continue;
      for (size_t k = 0; k < 2; ++k) {
        const Op* product = op->operands[k]->definition;
        if (!product || !made_.count(op->operands[k]) || !product->is("mul") || uses(op->operands[k]) != 1) continue;
        contracted_.insert(product);
        products_[op] = {product, op->operands[1 - k]};
        break;
      }
    }
  }

  void elementwise(const Op& op, const std::function<bool(const Value*)>& needed_outside) {
    const Value* result = op.results[0];
    std::vector<StepFunction> functions = step_functions(op);
    bool outside = needed_outside(result);
    // A store rounds by itself.
    bool only_stored = !outside;
    for (const Op* user : ops_)
      for (const Value* operand : user->operands) only_stored &= operand != result || user->is("store");
    if (ends_in_rounding(op) && only_stored) functions.pop_back();
    std::vector<const Value*> operands(op.operands.begin(), op.operands.end());
    if (auto product = products_.find(&op); product != products_.end()) {
      const auto& [mul, addend] = product->second;
      operands = {mul->operands[0], mul->operands[1], addend};
      functions[0].variants = find_elementwise("fma", functions[0].result)->variants;
    }
    int at = number(operands[0]);
    for (size_t i = 0; i < functions.size(); ++i) {
      SweepStep step;
      step.variants = functions[i].variants;
      if (i == 0) {
        step.arity = static_cast<int>(operands.size());
        for (int k = 0; k < step.arity; ++k) step.in[k] = number(operands[static_cast<size_t>(k)]);
      } else {
        step.in[0] = at;
      }
      step.out = at = static_cast<int>(sweep_.lanes.size());
      sweep_.lanes.push_back(functions[i].result);
      sweep_.steps.push_back(step);
    }
    numbers_[result] = at;
    if (outside) sweep_.outputs.push_back({at, lower_.tile(result), lower_.slot(result), result->type.dtype});
  }

  void reduction(const Op& op) {
    const Value* result = op.results[0];
    SweepReduction reduction;
    reduction.value = number(op.operands[0]);
    reduction.row = find_reduce(op.name(), lane_of(op.type(0).dtype));
    reduction.reduced.assign(op.type(0).shape.size(), false);
    for (int64_t axis : op.integers("axes")) reduction.reduced[static_cast<size_t>(axis)] = true;
    reduction.dtype = result->type.dtype;
    if (result->type.is_scalar()) {
      reduction.scalar = lower_.scalar(result);
      reduction.slot = lower_.new_slot(result->type);
    } else {
      reduction.tile = lower_.tile(result);
      reduction.slot = lower_.slot(result);
    }
    sweep_.reductions.push_back(std::move(reduction));
  }

  Lower& lower_;
  const std::vector<const Op*>& ops_;
  Units& before_;
  Sweep& sweep_;
  std::unordered_map<const Value*, int> numbers_, made_;
  std::unordered_set<const Op*> contracted_;  // products computed with the sum that reads them
  std::unordered_map<const Op*, std::pair<const Op*, const Value*>> products_;  // of such sums: product, addend
};

}  // namespace

std::unique_ptr<Unit> build_sweep(Lower& lower, const Shape& shape, const std::vector<const Op*>& ops,
                                  const std::function<bool(const Value*)>& needed_outside, Units& before) {
  auto sweep = std::make_unique<Sweep>();
  sweep->shape = shape;
  SweepBuilder(lower, ops, before, *sweep).build(needed_outside);
  lower.need_scratch(sweep->scratch_bytes());
  return sweep;
}

}  // namespace tile::cpu
