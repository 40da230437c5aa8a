// Numbers the values of a fused loop and builds its steps.
#include "cpu/fusion/fused_loop_build.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "cpu/interpreter/steps.h"
#include "ir/walk.h"
#include "support/text.h"

namespace tile::cpu {

bool in_fused_loop(const Op& op) {
  if (op.is("store")) return true;
  if (op.operands.empty() || op.type(0).is_array() || op.type(0).is_scalar()) return false;
  return op.traits().elementwise || find_reduce(op.name(), lane_of(op.type(0).dtype)) != nullptr;
}

const Shape& fused_loop_shape(const Op& op) { return op.type(op.is("store") ? 1 : 0).shape; }

namespace {

class FusedLoopBuilder {
 public:
  FusedLoopBuilder(LoweringContext& lower, const std::vector<const Op*>& ops,
                   const FusedLoopSurroundings& around, OpNodes& before, FusedLoop& fused_loop)
      : lower_(lower), ops_(ops), around_(around), before_(before), fused_loop_(fused_loop) {
    // Inputs are numbered first.
    for (const Op* op : ops)
      for (const Value* result : op->results)
        if (op->traits().elementwise) made_.emplace(result, -1);
    for (const Op* op : ops) {
      size_t from = op->is("store") ? 1 : 0, to = op->is("store") ? 2 : op->operands.size();
      for (size_t i = from; i < to; ++i) add_input(op->operands[i]);
    }
  }

  void build() {
    find_contractions();
    for (const Op* op : ops_) {
      if (contracted_.count(op)) continue;
      if (op->is("store"))
        fused_loop_.stores.push_back({number(op->operands[1]), lower_.address(*op, 2, op->type(1).shape)});
      else if (op->traits().elementwise)
        elementwise(*op);
      else
        reduction(*op);
    }
  }

 private:
  void add_input(const Value* value) {
    if (made_.count(value) || !numbers_.emplace(value, static_cast<int>(fused_loop_.inputs.size())).second)
      return;
    fused_loop_.inputs.push_back(lower_.input(value, before_));
    fused_loop_.lanes.push_back(lane_of(value->type.dtype));
    fused_loop_.dtypes.push_back(value->type.dtype);
    fused_loop_.known.push_back(known_number(value));
    fused_loop_.read_once.push_back(around_.read_once(value));
  }
  // Only for f32, whose lanes are the values themselves.
  static std::optional<float> known_number(const Value* value) {
    const auto constant = value->type.dtype == DType::f32 ? constant_of(value) : std::nullopt;
    if (!constant || std::isnan(constant->floating)) return std::nullopt;
    return static_cast<float>(constant->floating);
  }
  int number(const Value* value) const { return numbers_.at(value); }

  // An alternative to an op's own row that includes steps of its operands that have no other reader, which
  // saves a pass for each. It is allowed in f32 and f64, whose lanes are the values themselves; products may
  // then be added without rounding.
  struct Form {
    std::string row;
    std::vector<const Value*> operands;
  };

  void find_contractions() {
    auto uses = [&](const Value* value) {
      int count = around_.needed_outside(value) || around_.rounded(value) ? 2 : 0;
      for (const Op* op : ops_)
        count += static_cast<int>(std::count(op->operands.begin(), op->operands.end(), value));
      return count;
    };
    auto absorbable = [&](const Value* value) -> const Op* {
      const Op* op = value->definition;
      return op && made_.count(value) && !contracted_.count(op) && uses(value) == 1 ? op : nullptr;
    };
    for (const Op* op : ops_) {
      const DType dtype = op->results.empty() ? DType::i32 : op->results[0]->type.dtype;
      if (dtype != DType::f32 && dtype != DType::f64) continue;
      if (!op->is("add") && !op->is("reduce_sum")) continue;
      if (one_plus(*op, absorbable)) continue;
      for (size_t k = 0; k < op->operands.size(); ++k) {
        const Op* product = absorbable(op->operands[k]);
        if (!product || !product->is("mul")) continue;
        contracted_.insert(product);
        Form& form = forms_[op];
        form = {op->is("add") ? "fma" : "", {product->operands[0], product->operands[1]}};
        if (op->is("add")) form.operands.push_back(op->operands[1 - k]);
        break;
      }
    }
    for (const Op* op : ops_)
      if (op->traits().elementwise && !contracted_.count(op)) use_approximate(*op);
    for (const Op* op : ops_)
      if (op->traits().elementwise && !contracted_.count(op)) pair(*op, absorbable);
  }

  // Replaces a function plus 1 by one step, if there is a row for it.
  bool one_plus(const Op& op, const std::function<const Op*(const Value*)>& absorbable) {
    if (!op.is("add") || op.results[0]->type.dtype != DType::f32) return false;
    for (size_t k = 0; k < 2; ++k) {
      const Op* function = absorbable(op.operands[k]);
      const auto other = constant_of(op.operands[1 - k]);
      if (!function || !other || other->as_double() != 1) continue;
      const std::string name = str("one_plus(", function->name(), ")");
      if (!find_elementwise(name, Lane::f32)) continue;
      contracted_.insert(function);
      forms_[&op] = {name, {function->operands.begin(), function->operands.end()}};
      return true;
    }
    return false;
  }

  Form form(const Op& op) const {
    const auto found = forms_.find(&op);
    return found != forms_.end() ? found->second
                                 : Form{std::string(op.name()), {op.operands.begin(), op.operands.end()}};
  }

  // Uses the approximate row of a function if its result is only used after rounding to 16 bits.
  void use_approximate(const Op& op) {
    Form shorter = form(op);
    shorter.row += ".approximate";
    if (lower_.approximate(op.results[0]) && op.results[0]->type.dtype == DType::f32 &&
        find_elementwise(shorter.row, Lane::f32))
      forms_[&op] = std::move(shorter);
  }

  // Replaces two steps by one, if there is a row for them.
  void pair(const Op& op, const std::function<const Op*(const Value*)>& absorbable) {
    if (op.results[0]->type.dtype != DType::f32) return;
    const Form outer = form(op);
    for (size_t k = 0; k < outer.operands.size(); ++k) {
      const Op* step = outer.operands[k]->type.dtype == DType::f32 ? absorbable(outer.operands[k]) : nullptr;
      if (!step) continue;
      const Form inner = form(*step);
      // Factors and summands commute.
      const std::string_view position = outer.row != "fma" ? "" : k == 2 ? ".2" : ".0";
      const std::string name =
          str(k == 1 && outer.row == "sub" ? "rsub" : outer.row, position, "(", inner.row, ")");
      if (!find_elementwise(name, Lane::f32)) continue;
      std::vector<const Value*> operands = inner.operands;
      for (size_t i = 0; i < outer.operands.size(); ++i)
        if (i != k) operands.push_back(outer.operands[i]);
      contracted_.insert(step);
      forms_[&op] = {name, std::move(operands)};
      return;
    }
  }

  void elementwise(const Op& op) {
    const Value* result = op.results[0];
    std::vector<StepFunction> functions = step_functions(op);
    const bool outside = around_.needed_outside(result),
               elements = outside && lower_.read_as_elements(result, ops_);
    // A store rounds by itself.
    bool only_stored = !outside || elements;
    for (const Op* user : ops_)
      for (const Value* operand : user->operands) only_stored &= operand != result || user->is("store");
    const bool left_to_store = ends_in_rounding(op) && only_stored;
    if (left_to_store) functions.pop_back();
    std::vector<const Value*> operands(op.operands.begin(), op.operands.end());
    if (auto form = forms_.find(&op); form != forms_.end()) {
      operands = form->second.operands;
      const ElementwiseRow* row = find_elementwise(form->second.row, functions[0].result);
      functions[0].name = row->name;
      functions[0].variants = row->variants;
    }
    int at = number(operands[0]);
    for (size_t i = 0; i < functions.size(); ++i) {
      FusedLoopStep step;
      step.name = functions[i].name;
      step.variants = functions[i].variants;
      if (i == 0) {
        step.arity = static_cast<int>(operands.size());
        for (int k = 0; k < step.arity; ++k) step.in[k] = number(operands[static_cast<size_t>(k)]);
      } else {
        step.in[0] = at;
      }
      step.out = at = static_cast<int>(fused_loop_.lanes.size());
      fused_loop_.lanes.push_back(functions[i].result);
      const bool rounded = i + 1 == functions.size() && !left_to_store;
      fused_loop_.dtypes.push_back(rounded ? result->type.dtype : dtype_of(functions[i].result));
      fused_loop_.steps.push_back(step);
    }
    numbers_[result] = at;
    if (outside)
      fused_loop_.outputs.push_back(
          {at, lower_.tile(result), lower_.slot(result), result->type.dtype, elements});
  }

  void reduction(const Op& op) {
    const Value* result = op.results[0];
    FusedLoopReduction reduction;
    if (auto product = forms_.find(&op); product != forms_.end()) {
      reduction.value = number(product->second.operands[0]);
      reduction.factor = number(product->second.operands[1]);
    } else {
      reduction.value = number(op.operands[0]);
    }
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
    fused_loop_.reductions.push_back(std::move(reduction));
  }

  LoweringContext& lower_;
  const std::vector<const Op*>& ops_;
  const FusedLoopSurroundings& around_;
  OpNodes& before_;
  FusedLoop& fused_loop_;
  std::unordered_map<const Value*, int> numbers_, made_;
  std::unordered_set<const Op*> contracted_;  // computed together with the op that reads them
  std::unordered_map<const Op*, Form> forms_;
};

// A buffer is reused after the last read of its value.
void assign_buffers(FusedLoop& fused_loop) {
  const size_t end = fused_loop.steps.size();
  std::vector<size_t> last(fused_loop.lanes.size(), 0);
  for (size_t i = 0; i < end; ++i)
    for (int k = 0; k < fused_loop.steps[i].arity; ++k)
      last[static_cast<size_t>(fused_loop.steps[i].in[k])] = i;
  for (const FusedLoopStore& store : fused_loop.stores) last[static_cast<size_t>(store.value)] = end;
  for (const FusedLoopOutput& output : fused_loop.outputs) last[static_cast<size_t>(output.value)] = end;
  for (const FusedLoopReduction& reduction : fused_loop.reductions) {
    last[static_cast<size_t>(reduction.value)] = end;
    if (reduction.factor >= 0) last[static_cast<size_t>(reduction.factor)] = end;
  }
  std::vector<int> free;
  fused_loop.buffers.assign(fused_loop.lanes.size(), -1);
  auto take = [&](size_t value) {
    if (free.empty()) free.push_back(fused_loop.buffer_count++);
    fused_loop.buffers[value] = free.back();
    free.pop_back();
  };
  for (size_t v = 0; v < fused_loop.inputs.size(); ++v) take(v);
  for (size_t i = 0; i < end; ++i) {
    const FusedLoopStep& step = fused_loop.steps[i];
    take(static_cast<size_t>(step.out));
    for (size_t v = 0; v <= static_cast<size_t>(step.out); ++v)
      if (fused_loop.buffers[v] >= 0 && last[v] == i && v != static_cast<size_t>(step.out))
        free.push_back(fused_loop.buffers[v]);
  }
}

}  // namespace

std::unique_ptr<OpNode> build_fused_loop(LoweringContext& lower, const Shape& shape,
                                         const std::vector<const Op*>& ops,
                                         const FusedLoopSurroundings& around, OpNodes& before) {
  FusedLoop fused_loop;
  fused_loop.shape = shape;
  FusedLoopBuilder(lower, ops, around, before, fused_loop).build();
  assign_buffers(fused_loop);
  fused_loop.prefetch = around.prefetch;
  return make_fused_loop_node(lower, std::move(fused_loop));
}

}  // namespace tile::cpu
