// Marks gathers and scatters whose elements lie side by side: run = [axis of the tiles, axis of the array,
// width]. Along the former, groups of `width` elements, which begin at multiples of it, are neighbours along
// the latter, begin at a multiple of `width` there, and are masked together. A GPU moves them as vectors, if
// memory allows it.
#include <algorithm>
#include <optional>

#include "ir/atomic.h"
#include "ir/walk.h"
#include "passes/comparisons.h"
#include "passes/divisibility.h"
#include "passes/passes.h"

namespace tile {
namespace {

// A tile's elements along an axis, within groups that begin at multiples of a width: the first one of a
// group, plus `step` for each further element.
struct Along {
  int64_t step;
  std::optional<int64_t> rest;  // of the first ones, modulo the width
};

class Groups {
 public:
  Groups(Facts& facts, int64_t width) : facts_(facts), width_(width) {}

  std::optional<Along> along(const Value* value, int axis) const { return along(value, axis, 0); }
  // Returns true if all elements of a group are equal.
  bool alike(const Value* value, int axis) const {
    const auto found = along(value, axis);
    return found && found->step == 0;
  }

 private:
  std::optional<int64_t> known_rest(const Value* value) const {
    if (!is_integer(value->type.dtype)) return std::nullopt;
    const Range range = facts_.range(value);
    if (range.low == range.high) return modulo(range.low);
    return facts_.multiple_of(value, width_) ? std::optional<int64_t>(0) : std::nullopt;
  }
  int64_t modulo(int64_t x) const { return (x % width_ + width_) % width_; }
  Along same(const Value* value) const { return {0, known_rest(value)}; }

  std::optional<Along> along(const Value* value, int axis, int depth) const {
    constexpr int deepest = 64;  // of a chain of operands
    if (depth++ > deepest) return std::nullopt;
    const Type& type = value->type;
    if (type.rank() <= axis || type.shape[static_cast<size_t>(axis)] == 1) return same(value);
    const Op* op = value->definition;
    if (!op || op->results.size() != 1) return std::nullopt;
    if (op->is("constant")) return same(value);
    if (op->is("arange")) return Along{1, 0};
    if (op->is("broadcast")) {
      const int own = axis - (type.rank() - op->type(0).rank());
      if (own < 0 || op->type(0).shape[static_cast<size_t>(own)] == 1) return same(op->operands[0]);
      return along(op->operands[0], own, depth);
    }
    if (op->is("permute"))
      return along(op->operands[0], static_cast<int>(op->integers("axes")[static_cast<size_t>(axis)]), depth);
    if (op->is("reshape")) {
      const auto own = axis_before(op->type(0).shape, type.shape, axis);
      return own ? along(op->operands[0], *own, depth) : std::nullopt;
    }
    if (!op->traits().elementwise) return std::nullopt;
    std::vector<Along> operands;
    for (const Value* operand : op->operands) {
      const auto found = along(operand, axis, depth);
      if (!found) return std::nullopt;
      operands.push_back(*found);
    }
    if (std::all_of(operands.begin(), operands.end(), [](const Along& each) { return each.step == 0; }))
      return same_of(*op, operands);
    return stepping(*op, operands);
  }

  // Returns the axis of the shape before a reshape that becomes this one, if only axes of extent 1 come and
  // go.
  static std::optional<int> axis_before(const Shape& before, const Shape& after, int axis) {
    std::vector<int> from, to;
    for (size_t i = 0; i < before.size(); ++i)
      if (before[i] != 1) from.push_back(static_cast<int>(i));
    for (size_t i = 0; i < after.size(); ++i)
      if (after[i] != 1) to.push_back(static_cast<int>(i));
    if (from.size() != to.size()) return std::nullopt;
    std::optional<int> found;
    for (size_t i = 0; i < from.size(); ++i) {
      if (before[static_cast<size_t>(from[i])] != after[static_cast<size_t>(to[i])]) return std::nullopt;
      if (to[i] == axis) found = from[i];
    }
    return found;
  }

  // The result of an elementwise op whose operands do not change within a group.
  Along same_of(const Op& op, const std::vector<Along>& x) const {
    Along result = same(op.results[0]);
    if (!result.rest && is_integer(op.results[0]->type.dtype))
      if (const auto found = arithmetic(op, x)) result.rest = found->rest;
    return result;
  }
  std::optional<Along> stepping(const Op& op, const std::vector<Along>& x) const {
    if (const Comparison* comparison = find_comparison(op.name())) return compared(*comparison, x);
    return arithmetic(op, x);
  }

  std::optional<Along> arithmetic(const Op& op, const std::vector<Along>& x) const {
    const auto both = [&](int64_t sign) -> Along {
      Along result{x[0].step + sign * x[1].step, std::nullopt};
      if (x[0].rest && x[1].rest) result.rest = modulo(*x[0].rest + sign * *x[1].rest);
      return result;
    };
    if (op.is("add")) return both(1);
    if (op.is("sub")) return both(-1);
    if (op.is("neg")) return Along{-x[0].step, x[0].rest ? std::optional(modulo(-*x[0].rest)) : std::nullopt};
    if (op.is("mul"))
      for (const size_t i : {size_t{0}, size_t{1}}) {
        const Range factor = facts_.range(op.operands[1 - i]);
        if (factor.low != factor.high || std::abs(factor.low) > INT32_MAX) continue;
        Along result{x[i].step * factor.low, std::nullopt};
        if (x[i].rest) result.rest = modulo(*x[i].rest * modulo(factor.low));
        if (modulo(factor.low) == 0) result.rest = 0;
        return result;
      }
    // A cast to fewer bits could cut an index.
    if (op.is("astype") && is_integer(op.type(0).dtype) && is_integer(op.results[0]->type.dtype)) {
      const Range from = facts_.range(op.operands[0]), to = range_of(op.results[0]->type.dtype);
      if (info(op.results[0]->type.dtype).bits >= info(op.type(0).dtype).bits ||
          (from.low >= to.low && from.high <= to.high))
        return x[0];
    }
    return std::nullopt;
  }

  // A group is compared alike if the difference passes the bound only between two groups.
  std::optional<Along> compared(const Comparison& comparison, const std::vector<Along>& x) const {
    const int64_t step = x[0].step - x[1].step;
    if (step == 0 && comparison.sign != 0) return Along{0, std::nullopt};
    if (comparison.sign == 0 || std::abs(step) != 1 || !x[0].rest || !x[1].rest) return std::nullopt;
    // The outcome is `difference >= bound`, or its opposite.
    const int64_t bound = comparison.sign > 0 ? comparison.offset : 1 - comparison.offset;
    const int64_t first = *x[0].rest - *x[1].rest + (step < 0 ? 1 : 0);
    return modulo(first - bound) == 0 ? std::optional(Along{0, std::nullopt}) : std::nullopt;
  }

  Facts& facts_;
  int64_t width_;
};

using Run = std::vector<int64_t>;

std::optional<Run> run_of(const Op& op, Facts& facts) {
  constexpr int widest = 16;  // bytes of a vector
  const size_t first = op.traits().writes ? 2 : 1, count = index_count(op);
  if (count == 0 || is_flat(op)) return std::nullopt;
  const Type& type = op.type(first);
  if (type.is_scalar()) return std::nullopt;
  const Value* mask = first + count < op.operands.size() ? op.operands[first + count] : nullptr;
  for (int width = widest / info(op.type(0).dtype).bytes; width > 1; width /= 2)
    for (int axis = type.rank() - 1; axis >= 0; --axis) {
      if (type.shape[static_cast<size_t>(axis)] % width != 0) continue;
      const Groups groups(facts, width);
      if (mask && !groups.alike(mask, axis)) continue;
      int64_t unit = -1;
      bool runs = true;
      for (size_t i = 0; runs && i < count; ++i) {
        const auto found = groups.along(op.operands[first + i], axis);
        const bool steps = found && found->step == 1 && found->rest == 0 && unit < 0;
        if (steps) unit = static_cast<int64_t>(i);
        runs = steps || (found && found->step == 0);
      }
      if (runs && unit >= 0) return Run{axis, unit, width};
    }
  return std::nullopt;
}

// Only a GPU's launch says which axis of an array is contiguous.
bool knows_memory(const Function& function) {
  return std::any_of(function.attributes().begin(), function.attributes().end(), [](const auto& each) {
    return each.first.starts_with("array.") && each.first.ends_with(".unit");
  });
}

}  // namespace

bool find_runs(Function& function) {
  if (!knows_memory(function)) return false;
  bool changed = false;
  Facts facts(function);
  walk(function.body(), [&](Op& op) {
    if (!op.is("gather") && !op.is("scatter")) return;
    const auto run = run_of(op, facts);
    if (!run || (op.has("run") && op.integers("run") == *run)) return;
    op.attributes.set("run", *run);
    changed = true;
  });
  return changed;
}

}  // namespace tile
