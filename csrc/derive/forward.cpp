// Copies a kernel op by op. Each op's rule (Primitive::tangent) adds its tangent; regions carry tangents like
// values.
#include "derive/forward.h"

#include <unordered_map>
#include <unordered_set>

#include "derive/factored_sums.h"
#include "derive/invariance.h"
#include "dsl/tracer.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "passes/passes.h"
#include "prims/tangents.h"

namespace tile {
namespace {

bool may_have_tangent(const Type& type) { return is_floating(type.dtype); }

// The values that may depend on an active parameter. Loops need to know it before their body is copied.
class Activity {
 public:
  Activity(const Function& kernel, const std::vector<bool>& active) : invariant_(invariant_extremes(kernel)) {
    for (size_t i = 0; i < active.size(); ++i)
      if (active[i]) values_.insert(kernel.body().arguments[i]);
    do {
      changed_ = false;
      mark_block(kernel.body(), nullptr, nullptr);
    } while (changed_);
  }
  bool operator()(const Value* value) const { return values_.count(value) != 0; }
  bool is_invariant(const Value* value) const { return invariant_.contains(value); }

 private:
  void mark(const Value* value, bool active) {
    if (active && may_have_tangent(value->type)) changed_ |= values_.insert(value).second;
  }
  // `yields` and `jumps`: what yield, and break and continue, give values to.
  void mark_block(const Block& block, const Op* yields, const Op* jumps) {
    for (const auto& op : block.ops)
      if (op->traits().terminator)
        mark_end(*op, op->is("yield") ? *yields : *jumps);
      else if (op->regions.empty())
        mark_op(*op);
      else
        mark_regions(*op, jumps);
  }
  void mark_op(const Op& op) {
    if (op.primitive->tangent == no_tangent) return;
    bool active = false;
    for (const Value* operand : op.operands) active |= (*this)(operand);
    for (const Value* result : op.results) mark(result, active && !is_invariant(result));
  }
  void mark_end(const Op& end, const Op& target) {
    for (size_t i = 0; i < end.operands.size() && i < target.results.size(); ++i)
      mark(target.results[i], (*this)(end.operands[i]));
  }
  void mark_regions(const Op& op, const Op* jumps) {
    const size_t n = op.results.size();
    const bool loops = op.is("for") || op.is("loop"), branches = op.is("if");
    if (!branches) {
      const size_t initial = op.operands.size() - n;  // 3 of a counted loop, else 0
      const std::vector<Value*>& arguments = op.region().arguments;
      const size_t first = arguments.size() - (loops ? n : 2 * n);
      for (size_t i = 0; i < n; ++i) {
        mark(op.results[i], (*this)(op.operands[initial + i]));
        for (size_t at = first + i; at < arguments.size(); at += n)
          mark(arguments[at], (*this)(op.results[i]));
      }
    }
    for (const auto& region : op.regions) mark_block(*region, &op, loops ? &op : jumps);
  }

  std::unordered_set<const Value*> values_;
  const std::unordered_set<const Value*> invariant_;
  bool changed_ = false;
};

class Forward {
 public:
  Forward(const Function& kernel, const std::vector<bool>& active)
      : kernel_(kernel),
        active_(kernel, active),
        uses_(count_uses(kernel.body())),
        tracer_(kernel.name() + "_forward_mode"),
        function_(tracer_.function()) {
    function_.attributes() = kernel.attributes();
    const auto& parameters = kernel.body().arguments;
    for (Value* parameter : parameters)
      values_[parameter] = function_.add_argument(function_.body(), parameter->type, parameter->location);
    for (size_t i = 0; i < parameters.size(); ++i)
      if (active[i])
        tangents_[parameters[i]] =
            function_.add_argument(function_.body(), parameters[i]->type, parameters[i]->location);
    for (const auto& op : kernel.body().ops) read_.merge(effects_of(*op).reads);
  }

  Function run() {
    copy_block(kernel_.body(), function_.body(), {}, {});
    return tracer_.finish();
  }

 private:
  using Mask = std::vector<bool>;  // of the values that a region gives; true: also its tangent

  Value* value(Value* old) const { return values_.at(old); }
  Value* tangent(const Value* old) const {
    const auto found = tangents_.find(old);
    return found == tangents_.end() ? nullptr : found->second;
  }
  Value* tangent_or_zero(const Value* old) { return tile::tangent_or_zero(build(), tangent(old), old->type); }
  Builder& build() { return tracer_.builder(); }
  void set_tangent(const Value* old, Value* tangent) {
    if (tangent) tangents_[old] = tangent;
  }
  Mask mask_of(const std::vector<Value*>& values) const {
    Mask mask;
    for (const Value* each : values) mask.push_back(active_(each));
    return mask;
  }
  // Returns copies of values[first…], then the tangents of those in the mask.
  std::vector<Value*> with_tangents(const std::vector<Value*>& values, size_t first, const Mask& mask) {
    std::vector<Value*> all;
    for (size_t i = first; i < values.size(); ++i) all.push_back(value(values[i]));
    for (size_t i = first; i < values.size(); ++i)
      if (mask[i - first]) all.push_back(tangent_or_zero(values[i]));
    return all;
  }

  void enter(Block& block) {
    tracer_.write_into(block);
    build().to_end(block);
  }

  void copy_block(const Block& old, Block& fresh, const Mask& yields, const Mask& jumps) {
    for (const auto& op : old.ops) {
      enter(fresh);
      build().location = op->location;
      if (op->traits().terminator)
        build().create(*op->primitive, with_tangents(op->operands, 0, op->is("yield") ? yields : jumps));
      else if (op->regions.empty())
        copy_op(*op);
      else
        copy_regions(*op, fresh, jumps);
    }
  }

  void copy_op(const Op& op) {
    std::vector<Value*> operands, tangents;
    bool some = false;
    for (Value* operand : op.operands) {
      operands.push_back(value(operand));
      tangents.push_back(tangent(operand));
      some |= tangents.back() != nullptr;
    }
    const Op& copy = build().create(*op.primitive, std::move(operands), op.attributes);
    for (size_t i = 0; i < op.results.size(); ++i) values_[op.results[i]] = copy.results[i];
    if (!some || (op.results.size() == 1 && active_.is_invariant(op.result()))) return;
    require_kept(op, tangents);
    if (!op.primitive->tangent) {
      for (const Value* result : op.results)
        if (may_have_tangent(result->type)) fail_tangent(op);
      return;
    }
    Block& block = build().block();
    const size_t before = block.ops.size();
    const std::vector<Value*> results = op.primitive->tangent(build(), copy, tangents);
    for (size_t i = before; i < block.ops.size(); ++i) block.ops[i]->location = op.location;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i] && tangents[0] && op.traits().reads && uses_.count(op.results[i])) fail_tangent(op);
      set_tangent(op.results[i], results[i]);
    }
  }

  // Throws if a tangent that is dropped here could be read again.
  void require_kept(const Op& op, const std::vector<Value*>& tangents) const {
    if (!op.traits().writes || op.operands.size() < 2 || tangents[0] || !tangents[1]) return;
    if (read_.count(root_array(op.operands[0])))
      fail(op, ErrorKind::unsupported,
           "the array is read and written and has no tangent, but the tile has one; "
           "make the array active");
  }

  void copy_regions(const Op& op, Block& fresh, const Mask& jumps) {
    const bool branches = op.is("if"), loops = op.is("for") || op.is("loop");
    const Mask mask = mask_of(op.results);
    const size_t n = op.results.size(), bounds = branches ? 1 : op.operands.size() - n;
    auto copy = std::make_unique<Op>();
    copy->primitive = op.primitive;
    copy->attributes = op.attributes;
    copy->location = op.location;
    for (size_t i = 0; i < bounds; ++i) copy->operands.push_back(value(op.operands[i]));
    if (!branches)
      for (Value* operand : with_tangents(op.operands, bounds, mask)) copy->operands.push_back(operand);
    for (const auto& region : op.regions) {
      auto block = std::make_unique<Block>();
      block->parent = copy.get();
      copy_arguments(*region, *block, mask, branches ? 0 : loops ? 1 : 2);
      copy_block(*region, *block, mask, loops ? mask : jumps);
      copy->regions.push_back(std::move(block));
    }
    enter(fresh);
    build().location = op.location;
    const Op& inserted = build().insert(std::move(copy));
    size_t next = n;
    for (size_t i = 0; i < n; ++i) {
      values_[op.results[i]] = inserted.results[i];
      if (mask[i]) set_tangent(op.results[i], inserted.results[next++]);
    }
  }

  // A region takes an index, or nothing, and then lists of values: one of a loop, two of a combination. Each
  // list is followed by its tangents.
  void copy_arguments(const Block& region, Block& block, const Mask& mask, size_t lists) {
    const auto& arguments = region.arguments;
    const size_t n = mask.size();
    size_t at = arguments.size() - lists * n;
    const auto add = [&](const Value* old) {
      return function_.add_argument(block, old->type, old->location);
    };
    for (size_t i = 0; i < at; ++i) values_[arguments[i]] = add(arguments[i]);
    for (; at < arguments.size(); at += n) {
      for (size_t i = 0; i < n; ++i) values_[arguments[at + i]] = add(arguments[at + i]);
      for (size_t i = 0; i < n; ++i)
        if (mask[i]) tangents_[arguments[at + i]] = add(arguments[at + i]);
    }
  }

  const Function& kernel_;
  const Activity active_;
  const UseCounts uses_;
  Tracer tracer_;
  Function& function_;
  std::unordered_map<const Value*, Value*> values_, tangents_;
  std::unordered_set<const Value*> read_;  // parameters
};

}  // namespace

Function forward(const Function& kernel, const std::vector<bool>& active) {
  const auto& parameters = kernel.body().arguments;
  TILE_CHECK(active.size() == parameters.size());
  for (size_t i = 0; i < active.size(); ++i)
    if (active[i] && !may_have_tangent(parameters[i]->type))
      fail(ErrorKind::type, kernel.name(), ": parameter ", i, " is ", parameters[i]->type,
           ", which has no tangent; only floats have one");
  Function expanded = clone(kernel);
  expand_unless(expanded, [](const Primitive& each) { return each.tangent != nullptr; });
  Function derived = Forward(expanded, active).run();
  factor_sums(derived);
  verify(derived, "forward");
  return derived;
}

}  // namespace tile
