// Comparisons of arange with a scalar. The result is a step, which is a pointer into ones and zeros and needs
// no computation.
#include <algorithm>
#include <optional>

#include "cpu/interpreter/lowering_context.h"

namespace tile::cpu {
namespace {

// A sum of signed scalars, plus arange(n) along an axis.
struct Affine {
  int axis = -1;  // -1: constant
  int64_t size = 0;
  std::vector<std::pair<const Value*, int>> terms;
};

std::optional<Affine> resolve(const Value* value) {
  if (value->type.is_array() || !is_integer(value->type.dtype)) return std::nullopt;
  if (value->type.is_scalar()) return Affine{-1, 0, {{value, 1}}};
  const Op* op = value->definition;
  if (!op) return std::nullopt;
  if (op->is("arange") && element_count(value->type.shape) > 1) return Affine{0, op->integer("size"), {}};
  if (op->is("broadcast")) {
    auto inner = resolve(op->operands[0]);
    return inner;  // ranks are equal, or the operand is a scalar
  }
  if (op->is("reshape") && is_tile_view(*op)) {
    auto inner = resolve(op->operands[0]);
    if (!inner || inner->axis < 0) return inner;
    const Shape& to = value->type.shape;
    for (size_t i = 0; i < to.size(); ++i)
      if (to[i] == inner->size && element_count(to) == inner->size) {
        inner->axis = static_cast<int>(i);
        return inner;
      }
    return std::nullopt;
  }
  if (op->is("add") || op->is("sub")) {
    auto x = resolve(op->operands[0]), y = resolve(op->operands[1]);
    int sign = op->is("add") ? 1 : -1;
    if (!x || !y || (x->axis >= 0 && y->axis >= 0) || (y->axis >= 0 && sign < 0)) return std::nullopt;
    if (y->axis >= 0) x->axis = y->axis, x->size = y->size;
    for (auto [term, of] : y->terms) x->terms.emplace_back(term, of * sign);
    return x;
  }
  return std::nullopt;
}

struct Step {
  int axis;
  int64_t size;
  bool rising;     // true: first false, then true
  int64_t offset;  // number of elements before the step: the terms' sum plus this
  std::vector<std::pair<const Value*, int>> terms;
};

std::optional<Step> match(const Op& op) {
  if (op.results[0]->type.is_scalar()) return std::nullopt;
  auto x = resolve(op.operands[0]), y = resolve(op.operands[1]);
  if (!x || !y || (x->axis >= 0) == (y->axis >= 0)) return std::nullopt;
  // A comparison written as arange (op) bound; one of bound with arange is reversed.
  struct Form {
    std::string_view name;
    bool rising;
    int64_t offset;
    bool mirrored_rising;
    int64_t mirrored_offset;
  };
  static constexpr Form forms[] = {{"lt", false, 0, true, 1},
                                   {"le", false, 1, true, 0},
                                   {"gt", true, 1, false, 0},
                                   {"ge", true, 0, false, 1}};
  for (const Form& form : forms) {
    if (!op.is(form.name)) continue;
    bool mirrored = y->axis >= 0;
    const Affine &ramp = mirrored ? *y : *x, &bound = mirrored ? *x : *y;
    Step step{ramp.axis, ramp.size, mirrored ? form.mirrored_rising : form.rising,
              mirrored ? form.mirrored_offset : form.offset, bound.terms};
    for (auto [term, sign] : ramp.terms) step.terms.emplace_back(term, -sign);
    return step;
  }
  return std::nullopt;
}

struct MaskNode final : OpNode {
  std::vector<char> ones_and_zeros;
  int axis, rank, to;
  int64_t size, offset;
  std::vector<std::pair<ScalarSlot, int>> terms;
  Signal run(Frame& frame) const override {
    int64_t before = offset;
    for (auto [slot, sign] : terms) before += sign * integer(frame, slot);
    before = std::clamp<int64_t>(before, 0, size);
    TileRef mask;
    mask.dtype = DType::boolean;
    mask.data = const_cast<char*>(ones_and_zeros.data()) + (size - before);
    mask.rank = rank;
    for (int i = 0; i < rank; ++i) mask.axes[i] = {1, 0, 0, unlimited};
    bool stepped = before > 0 && before < size;
    mask.axes[axis].extent = stepped ? before + 1 : 1;
    mask.axes[axis].stride = stepped ? 1 : 0;
    frame.tiles[static_cast<size_t>(to)] = mask;
    return Signal::next;
  }
};

bool applies(const LoweringContext&, const Op& op) { return match(op).has_value(); }
std::vector<const Value*> needs(const LoweringContext&, const Op& op) {
  std::vector<const Value*> values;
  std::optional<Step> step = match(op);
  for (auto [term, sign] : step->terms) values.push_back(term);
  return values;
}
std::unique_ptr<OpNode> lower_mask(LoweringContext& lower, const Op& op) {
  Step step = *match(op);
  auto node = std::make_unique<MaskNode>();
  auto n = static_cast<size_t>(step.size);
  node->ones_and_zeros.assign(2 * n, step.rising ? 0 : 1);
  std::fill(node->ones_and_zeros.begin() + static_cast<ptrdiff_t>(n), node->ones_and_zeros.end(),
            step.rising ? 1 : 0);
  node->axis = step.axis;
  node->rank = op.results[0]->type.rank();
  node->to = lower.tile(op.results[0]);
  node->size = step.size;
  node->offset = step.offset;
  for (auto [term, sign] : step.terms) node->terms.emplace_back(lower.index(term), sign);
  return node;
}

const AddLoweringRule lt_{{"lt", lower_mask, true, applies, needs}};
const AddLoweringRule le_{{"le", lower_mask, true, applies, needs}};
const AddLoweringRule gt_{{"gt", lower_mask, true, applies, needs}};
const AddLoweringRule ge_{{"ge", lower_mask, true, applies, needs}};

}  // namespace
}  // namespace tile::cpu
