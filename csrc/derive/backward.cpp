// Ops that have a rule, and the memory of gradients. Branches and loops are in backward_regions.cpp.
#include "derive/backward.h"

#include <algorithm>

#include "derive/saved.h"

namespace tile {

class Backward::Context : public Adjoints {
 public:
  Context(Backward& backward, const Op& op) : Adjoints(backward.build_, op), backward_(backward) {}

  using Adjoints::of;
  Value* of(size_t result) const override { return backward_.adjoint(op.result(result)); }
  bool wants(size_t operand) const override { return backward_.active(op.operands.at(operand)); }
  void add(size_t operand, Value* part) override { backward_.add(op.operands.at(operand), part); }
  bool wants_outside(const Value* value) override { return backward_.active(value); }
  void add_outside(Value* value, Value* part) override { backward_.add(value, part); }

  bool is_finite_in_padding(const Value* value) const override {
    const auto at = backward_.origin_.find(value);
    return at != backward_.origin_.end() && backward_.padding_.is_finite(at->second);
  }

  GradientMemory read_gradient() override {
    const size_t parameter = backward_.parameter(root_array(op.operands[0]));
    for (const DerivedGradient& gradient : backward_.derived_.gradients) {
      if (gradient.parameter != parameter) continue;
      Value* root = backward_.function_.body().arguments[gradient.position];
      if (gradient.how == DerivedGradient::summed) {  // this block's part of the sums
        std::vector<Value*> operands{root};
        for (int axis : gradient.axes) operands.push_back(emit("bid", {}, {{"axis", int64_t{axis}}}));
        root = emit("index", std::move(operands));
      }
      return {backward_.view_of(op.operands[0], root), memory_how(gradient)};
    }
    return {};
  }
  Value* written_gradient() override {
    const size_t parameter = backward_.parameter(root_array(op.operands[0]));
    const auto& results = backward_.derived_.results;
    const auto at = std::find(results.begin(), results.end(), parameter);
    if (at == results.end()) return nullptr;
    const auto position = backward_.parameters_ + static_cast<size_t>(at - results.begin());
    return backward_.view_of(op.operands[0], backward_.function_.body().arguments[position]);
  }

 private:
  static GradientMemory::How memory_how(const DerivedGradient& gradient) {
    if (gradient.how == DerivedGradient::atomic) return GradientMemory::atomic;
    return gradient.once ? GradientMemory::store : GradientMemory::add;
  }
  Backward& backward_;
};

Backward::Backward(Derived& derived, const Activity& activity, const ValueMap& copies)
    : derived_(derived),
      activity_(activity),
      function_(derived.function),
      build_(derived.function, derived.function.body()),
      parameters_(derived.kernel.body().arguments.size()),
      padding_(derived.kernel),
      online_(online_loops(
          derived.kernel,
          [&](const Op& op) {
            const auto& results = derived.results;
            const auto& all = derived.kernel.body().arguments;
            const auto at = std::find(all.begin(), all.end(), root_array(op.operands[0])) - all.begin();
            return std::find(results.begin(), results.end(), static_cast<size_t>(at)) != results.end();
          },
          [&](const Value* value) { return activity.active(value); })) {
  for (const auto& [from, to] : copies) origin_[to] = from;
  note_loops(derived.kernel.body(), function_.body());
  size_t number = 0;
  walk(derived.kernel.body(), [&](const Op& op) {
    if (op.is("for")) keeping_[&op] = derived.keeping.at(number++);
  });
}

void Backward::run() {
  std::vector<Op*> ops;
  for (const auto& op : function_.body().ops) ops.push_back(op.get());
  frames_.push_back({&function_.body(), {}, {}});
  backward(ops);
  load_saved(function_.body());
  remove_forward_effects(function_.body());
}

void Backward::note_copies(const ValueMap& map, const LastMaximum* last) {
  for (const auto& [from, to] : map) {
    const auto known = origin_.find(from);
    if (known == origin_.end() || (last && (to == last->value || last->loop->scaled.contains(known->second))))
      continue;
    origin_[to] = known->second;
  }
}
void Backward::note_loops(const Block& from, const Block& to) {
  for (size_t i = 0; i < from.ops.size() && i < to.ops.size(); ++i) note_loop(*from.ops[i], *to.ops[i]);
}
void Backward::note_loop(const Op& from, const Op& to) {
  if (from.is("for")) {
    const auto known = loop_origin_.find(&from);
    loop_origin_[&to] = known == loop_origin_.end() ? &from : known->second;
  }
  for (size_t k = 0; k < from.regions.size(); ++k) note_loops(from.region(k), to.region(k));
}

bool Backward::active(const Value* value) const {
  const auto at = origin_.find(value);
  return at != origin_.end() && activity_.active(at->second);
}
Value* Backward::adjoint(const Value* value) const {
  const auto& parts = frames_.back().parts;
  const auto at = parts.find(const_cast<Value*>(value));
  return at == parts.end() ? nullptr : at->second;
}

// A product onto zeros is added by accumulating onto the other summand.
Value* Backward::sum(Value* x, Value* y) {
  const Op* product = y->definition;
  if (product && product->is("mma") && product->type(2) == x->type && product->parent == &build_.block())
    if (const auto start = constant_of(product->operands[2]); start && start->floating == 0)
      return build_.emit("mma", {product->operands[0], product->operands[1], x});
  return build_.emit("add", {x, y});
}
void Backward::add(Value* value, Value* part) {
  if (!active(value)) return;
  part = build_.astype(part, adjoint_dtype(value->type.dtype));
  TILE_CHECK(part->type.shape == value->type.shape, "an adjoint is ", part->type, ", its value ",
             value->type);
  Frame& frame = frames_.back();
  const auto [at, made] = frame.parts.try_emplace(value, part);
  if (made)
    frame.order.push_back(value);
  else
    at->second = sum(at->second, part);
}

size_t Backward::parameter(const Value* array) const {
  const auto& all = function_.body().arguments;
  return static_cast<size_t>(std::find(all.begin(), all.end(), array) - all.begin());
}
bool Backward::is_forward_write(const Op& op) const {
  return op.traits().writes && parameter(root_array(op.operands[0])) < parameters_;
}
bool Backward::writes_results(const Op& op) const {
  bool any = false;
  for (const auto& region : op.regions)
    walk(*region, [&](const Op& each) {
      any |= is_forward_write(each) && activity_.is_result(parameter(root_array(each.operands[0])));
    });
  return any;
}

// Returns the views from the array's parameter to it, of another array.
Value* Backward::view_of(Value* array, Value* root) {
  const Op* view = array->definition;
  if (!view) return root;
  std::vector<Value*> operands = view->operands;
  operands[0] = view_of(operands[0], root);
  return build_.create(*view->primitive, std::move(operands), view->attributes).result();
}

void Backward::backward(const std::vector<Op*>& ops) {
  for (size_t i = ops.size(); i-- > 0;) {
    build_.location = ops[i]->location;
    backward(*ops[i]);
  }
}

void Backward::backward(Op& op) {
  if (op.is("for")) return for_op(op);
  if (op.is("if")) return if_op(op);
  bool given = false;
  for (const Value* result : op.results) given |= adjoint(result) != nullptr;
  if (op.is("loop")) {
    if (given || writes_results(op))
      fail_without_derivative(op, "it has no end; leave it by its condition or break");
    return;
  }
  if (op.traits().terminator) return;
  if (is_forward_write(op)) {
    if (activity_.is_result(parameter(root_array(op.operands[0])))) apply_rule(op);
    return;
  }
  if (given) return apply_rule(op);
  // A result of integers ends the dependence, unless it holds a float's bits.
  bool depends = false, floats = false;
  for (const Value* operand : op.operands) depends |= active(operand);
  for (const Value* result : op.results) floats |= is_floating(result->type.dtype);
  if (depends && !floats && op.primitive->adjoint) apply_rule(op);
}

void Backward::apply_rule(Op& op) {
  if (!op.primitive->adjoint)
    fail_without_derivative(op, "compute this part by other means, or write the gradient by hand");
  Context context(*this, op);
  op.primitive->adjoint(context);
}

// Loads what the kernel stores for its gradient, in the place of computing it again.
ValueMap Backward::load_saved(Block& block) {
  if (derived_.saved.empty()) return {};
  return tile::load_saved(function_, block, [&](const Op& op) {
    if (!is_forward_write(op)) return false;
    const auto& saved = derived_.saved;
    return std::find(saved.begin(), saved.end(), parameter(root_array(op.operands[0]))) != saved.end();
  });
}

void Backward::remove_forward_effects(Block& block) {
  std::erase_if(block.ops,
                [&](const std::unique_ptr<Op>& op) { return op->traits().effect || is_forward_write(*op); });
  for (const auto& op : block.ops)
    for (const auto& region : op->regions) remove_forward_effects(*region);
}

}  // namespace tile
