// Builds linear forms and proves them nonnegative.
#include "passes/bounds.h"

#include <algorithm>

#include "ir/walk.h"

namespace tile {
namespace {

using Wide = __int128;
constexpr int64_t largest = int64_t(1) << 40;  // of coefficients and constants, so that their sums are exact
constexpr int proof_depth = 8, proof_budget = 64;

bool reasonable(const Linear& form) {
  auto fits = [](int64_t x) { return x >= -largest && x <= largest; };
  for (const Linear::Term& term : form.terms)
    if (!fits(term.coefficient)) return false;
  return fits(form.low) && fits(form.high) && form.terms.size() <= 16;
}

// The effect of an op on linear forms.
enum class Meaning { sum, difference, negation, product, same, count };
const struct {
  std::string_view primitive;
  Meaning meaning;
} meanings[] = {
    {"add", Meaning::sum},      {"sub", Meaning::difference}, {"neg", Meaning::negation},
    {"mul", Meaning::product},  {"broadcast", Meaning::same}, {"reshape", Meaning::same},
    {"permute", Meaning::same}, {"astype", Meaning::same},    {"arange", Meaning::count},
};
std::optional<Meaning> meaning_of(const Op& op) {
  for (const auto& row : meanings)
    if (op.is(row.primitive)) return row.meaning;
  return std::nullopt;
}

}  // namespace

void Linear::add(const Linear& other, int64_t factor) {
  for (const Term& term : other.terms) {
    auto at =
        std::find_if(terms.begin(), terms.end(), [&](const Term& mine) { return mine.value == term.value; });
    if (at == terms.end())
      terms.push_back({term.value, term.coefficient * factor});
    else if ((at->coefficient += term.coefficient * factor) == 0)
      terms.erase(at);
  }
  low += factor * (factor > 0 ? other.low : other.high);
  high += factor * (factor > 0 ? other.high : other.low);
}

int64_t Linear::coefficient(const Value* value) const {
  for (const Term& term : terms)
    if (term.value == value) return term.coefficient;
  return 0;
}

void Linear::erase(const Value* value) {
  std::erase_if(terms, [&](const Term& term) { return term.value == value; });
}

Linear Bounds::extent(Value* array, int64_t axis) {
  // Views have the extents of their array, except that `index` removes leading axes and `permute_array`
  // reorders them.
  for (const Op* view = array->definition; view; view = array->definition) {
    if (view->is("index"))
      axis += static_cast<int64_t>(view->operands.size()) - 1;
    else if (view->is("permute_array"))
      axis = view->integers("axes").at(static_cast<size_t>(axis));
    else if (!view->is("slice") || view->integer("axis") == axis)
      break;
    array = view->operands[0];
  }
  for (size_t i = 0; i < extents_.size(); ++i)
    if (extents_[i].operands[0] == array && extents_[i].integer("axis") == axis)
      return {{{&extent_values_[i], 1}}, 0, 0};
  Op& op = extents_.emplace_back();
  op.primitive = &primitive("dim");
  op.operands = {array};
  op.attributes.set("axis", axis);
  Value& value = extent_values_.emplace_back();
  value.type = Type::tile(DType::i32);
  if (is_wide_array(facts_.function(), array)) {
    value.type.dtype = DType::i64;
    op.attributes.set("dtype", DType::i64);
  }
  value.definition = &op;
  op.results = {&value};
  return {{{&value, 1}}, 0, 0};
}

bool Bounds::is_extent(const Value* value) const {
  return std::any_of(extent_values_.begin(), extent_values_.end(),
                     [&](const Value& each) { return &each == value; });
}

std::optional<Linear> Bounds::linear(Value* value) {
  if (value->type.is_array() || (value->type.dtype != DType::i32 && value->type.dtype != DType::i64))
    return std::nullopt;
  Op* op = value->definition;
  auto opaque = [&]() -> std::optional<Linear> {
    if (value->type.is_scalar()) return Linear{{{value, 1}}, 0, 0};
    Range range = facts_.range(value);
    Linear form{{}, range.low, range.high};
    return range == range_of(value->type.dtype) || !reasonable(form) ? std::nullopt : std::optional(form);
  };
  if (!op) return opaque();
  if (std::optional<Constant> constant = constant_of(value)) {
    Linear form{{}, constant->integer, constant->integer};
    return reasonable(form) ? std::optional(form) : std::nullopt;
  }
  if (op->is("dim")) return extent(op->operands[0], op->integer("axis"));
  std::optional<Meaning> meaning = meaning_of(*op);
  if (!meaning) return opaque();
  std::vector<Linear> x;
  for (Value* operand : op->operands) {
    std::optional<Linear> form = linear(operand);
    if (!form) return opaque();
    x.push_back(std::move(*form));
  }
  Linear form;
  switch (*meaning) {
    case Meaning::sum:
      form = x[0], form.add(x[1], 1);
      break;
    case Meaning::difference:
      form = x[0], form.add(x[1], -1);
      break;
    case Meaning::negation:
      form.add(x[0], -1);
      break;
    case Meaning::product: {
      auto fixed = [](const Linear& each) { return each.terms.empty() && each.low == each.high; };
      if (!fixed(x[1])) std::swap(x[0], x[1]);
      if (!fixed(x[1])) return opaque();
      if (x[1].low != 0) form.add(x[0], x[1].low);
      break;
    }
    case Meaning::same:
      if (info(op->type(0).dtype).bits > info(value->type.dtype).bits) return opaque();
      form = x[0];
      break;
    case Meaning::count:
      form = {{}, 0, op->integer("size") - 1};
      break;
  }
  return reasonable(form) ? std::optional(form) : opaque();
}

std::optional<Linear> Bounds::difference(Value* x, Value* y) {
  std::optional<Linear> first = linear(x), second = linear(y);
  if (!first || !second) return std::nullopt;
  first->add(*second, -1);
  return reasonable(*first) ? first : std::nullopt;
}

bool Bounds::nonnegative(const Linear& form) {
  budget_ = proof_budget;
  return prove(form, proof_depth);
}

bool Bounds::prove(const Linear& form, int depth) {
  if (--budget_ < 0 || !reasonable(form)) return false;
  Wide low = form.low;
  for (const Linear::Term& term : form.terms) {
    Range range = facts_.range(term.value);
    low += Wide(term.coefficient) * (term.coefficient > 0 ? range.low : range.high);
  }
  if (low >= 0) return true;
  if (depth == 0) return false;
  for (const Linear::Term& term : form.terms) {
    Replacement replacement = bound_below(term);
    if (replacement.forms.empty()) continue;
    bool good = replacement.all;
    for (const Linear& each : replacement.forms) {
      Linear next = form;
      next.erase(term.value);
      next.add(each, 1);
      next.high = next.low;
      bool proven = prove(next, depth - 1);
      good = replacement.all ? good && proven : good || proven;
      if (good != replacement.all) break;
    }
    if (good) return true;
  }
  return false;
}

Bounds::Replacement Bounds::bound_below(const Linear::Term& term) {
  const Value* value = term.value;
  bool upper = term.coefficient < 0;  // then the value needs an upper bound
  auto times = [&](Value* by, int64_t offset) {
    std::optional<Linear> form = linear(by);
    Linear scaled;
    if (!form) return std::vector<Linear>{};
    form->low += offset;
    form->high += offset;
    scaled.add(*form, term.coefficient);
    return std::vector<Linear>{scaled};
  };
  const Op* op = value->definition;
  if (!op) {
    const Op* loop = value->owner->parent;
    if (!loop || !loop->is("for") || value != loop->region().arguments[0]) return {};
    return {upper ? times(loop->operands[1], -1) : times(loop->operands[0], 0)};
  }
  if (op->is("minimum") || op->is("maximum")) {
    Replacement both{times(op->operands[0], 0), op->is("minimum") != upper};
    for (Linear& form : times(op->operands[1], 0)) both.forms.push_back(std::move(form));
    return both.forms.size() == 2 || !both.all ? both : Replacement{};
  }
  if (op->is("floordiv")) return quotient_below(term, *op, false);
  if (op->is("cdiv")) return quotient_below(term, *op, true);
  if (op->is("bid") && upper) {
    const Attribute* tiles = facts_.function().attributes().find(str("bid.", op->integer("axis"), ".tiles"));
    const auto* list = tiles ? std::get_if<std::vector<int64_t>>(tiles) : nullptr;
    const auto& parameters = facts_.function().body().arguments;
    if (!list || list->size() != 3 || (*list)[0] < 0 || (*list)[0] >= static_cast<int64_t>(parameters.size()))
      return {};
    int64_t size = (*list)[2];
    if (size < 1 || term.coefficient % size != 0) return {};
    // size * bid <= extent - 1; if size divides the extent, size * bid <= extent - size.
    Linear most = extent(parameters[static_cast<size_t>((*list)[0])], (*list)[1]);
    most.low = most.high = facts_.multiple_of(most.terms[0].value, size) ? -size : -1;
    Linear scaled;
    scaled.add(most, term.coefficient / size);
    return {{scaled}};
  }
  return {};
}

// by * (x / by) is in x - by + 1 .. x, or in x .. x + by - 1 if rounded up; it equals x if `by` divides x.
Bounds::Replacement Bounds::quotient_below(const Linear::Term& term, const Op& op, bool up) {
  std::optional<Constant> by = constant_of(op.operands[1]);
  if (!by || by->integer < 1 || term.coefficient % by->integer != 0) return {};
  std::optional<Linear> x = linear(op.operands[0]);
  if (!x) return {};
  int64_t slack = facts_.multiple_of(op.operands[0], by->integer) ? 0 : by->integer - 1;
  bool upper = term.coefficient < 0;
  int64_t offset = up && upper ? slack : !up && !upper ? -slack : 0;
  x->low += offset;
  x->high += offset;
  Linear scaled;
  scaled.add(*x, term.coefficient / by->integer);
  return {{scaled}};
}

}  // namespace tile
