// Takes sums apart into terms, and terms into tiles and factors.
#include "derive/factored_sums.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "passes/rewrite.h"

namespace tile {
namespace {

// A product of tiles and of values that are the same along the summed axes.
struct Term {
  struct Factor {
    Value* value;  // before it was broadcast
    bool divides;
  };
  std::vector<Value*> tiles;
  std::vector<Factor> factors;
  bool negative = false;
};
using Terms = std::vector<Term>;
constexpr size_t most_terms = 4;

class Sum {
 public:
  explicit Sum(const Op& op) : axes_(op.integers("axes")), terms_(terms_of(op.operands[0])) {}
  const Terms& terms() const { return terms_; }

  // Emits the sum of the terms. op: the sum that they are of.
  Value* emit(Builder& build, const Op& op) const {
    Value* total = nullptr;
    for (const Term& term : terms_) {
      Value* product = term.tiles[0];
      for (size_t i = 1; i < term.tiles.size(); ++i) product = build.emit("mul", {product, term.tiles[i]});
      Value* sum = build.emit("reduce_sum", {product}, op.attributes);
      for (const Term::Factor& factor : term.factors)
        sum = build.emit(factor.divides ? "div" : "mul",
                         {sum, summed_shape(build, factor.value, op.results[0]->type.shape)});
      if (term.negative) sum = build.emit("neg", {sum});
      total = total ? build.emit("add", {total, sum}) : sum;
    }
    return total;
  }

 private:
  bool is_summed(size_t axis) const {
    return std::find(axes_.begin(), axes_.end(), static_cast<int64_t>(axis)) != axes_.end();
  }
  // Returns the value that was broadcast along the summed axes, or null.
  Value* uniform(const Value* value) const {
    const Op* op = value->definition;
    if (!op || !op->is("broadcast")) return nullptr;
    Value* from = op->operands[0];
    const Shape& shape = from->type.shape;
    if (!shape.empty() && shape.size() != value->type.shape.size()) return nullptr;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (is_summed(axis) && shape[axis] != 1) return nullptr;
    return from;
  }
  // Returns a factor without the summed axes.
  Value* summed_shape(Builder& build, Value* factor, const Shape& shape) const {
    if (!factor->type.shape.empty()) {
      Shape kept;
      for (size_t axis = 0; axis < factor->type.shape.size(); ++axis)
        if (!is_summed(axis)) kept.push_back(factor->type.shape[axis]);
      factor = build.emit("reshape", {factor}, {{"shape", kept}});
    }
    return build.broadcast(factor, shape);
  }

  Terms terms_of(Value* value) const {
    const Op* op = value->definition;
    const Terms whole{{{value}, {}, false}};
    if (!op) return whole;
    if (op->is("neg")) {
      Terms terms = terms_of(op->operands[0]);
      for (Term& term : terms) term.negative = !term.negative;
      return terms;
    }
    if (op->is("add") || op->is("sub")) {
      Terms terms = terms_of(op->operands[0]);
      for (Term& term : terms_of(op->operands[1])) {
        term.negative ^= op->is("sub");
        terms.push_back(std::move(term));
      }
      const bool factored =
          std::any_of(terms.begin(), terms.end(), [](const Term& term) { return !term.factors.empty(); });
      return factored && terms.size() <= most_terms ? terms : whole;
    }
    if (op->is("div")) {
      Value* factor = uniform(op->operands[1]);
      return factor ? scaled(terms_of(op->operands[0]), {factor, true}) : whole;
    }
    if (!op->is("mul")) return whole;
    for (const size_t i : {size_t{1}, size_t{0}})
      if (Value* factor = uniform(op->operands[i]))
        return scaled(terms_of(op->operands[1 - i]), {factor, false});
    const Terms left = terms_of(op->operands[0]), right = terms_of(op->operands[1]);
    if (left.size() > 1 || right.size() > 1) return whole;
    Term product = left[0];
    product.tiles.insert(product.tiles.end(), right[0].tiles.begin(), right[0].tiles.end());
    product.factors.insert(product.factors.end(), right[0].factors.begin(), right[0].factors.end());
    product.negative ^= right[0].negative;
    return product.factors.empty() && !product.negative ? whole : Terms{product};
  }
  static Terms scaled(Terms terms, const Term::Factor& factor) {
    for (Term& term : terms) term.factors.push_back(factor);
    return terms;
  }

  const std::vector<int64_t> axes_;
  const Terms terms_;
};

// Counts the reductions in a row that a value waits for.
class Depths {
 public:
  int of(const Value* value) {
    if (!value->definition) return 0;
    const auto [known, fresh] = depths_.emplace(value, 0);
    if (!fresh) return known->second;
    int depth = 0;
    for (const Value* operand : value->definition->operands) depth = std::max(depth, of(operand));
    return depths_[value] = depth + value->definition->name().starts_with("reduce");
  }

 private:
  std::unordered_map<const Value*, int> depths_;
};

}  // namespace

bool factor_sums(Function& function) {
  Rewriter rewrite(function);
  Depths depths;
  rewrite.run(function.body(), [&](Op& op) {
    if (!op.is("reduce_sum") || !dtypes::wide_floats.has(op.type(0).dtype)) return Keep::yes;
    const Sum sum(op);
    int depth = 0;
    bool factored = false;
    for (const Term& term : sum.terms()) {
      factored |= !term.factors.empty();
      for (const Value* tile : term.tiles) depth = std::max(depth, depths.of(tile));
    }
    // Several sums cost more than one, unless they need not wait.
    if (!factored || (sum.terms().size() > 1 && depth >= depths.of(op.operands[0]))) return Keep::yes;
    rewrite.replace(op.results[0], sum.emit(rewrite.build, op));
    return Keep::no;
  });
  return rewrite.changed;
}

}  // namespace tile
