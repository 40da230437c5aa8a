// Follows how values change with the running maximum of a loop.
#include "derive/online.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/walk.h"

namespace tile {
namespace {

// How a value changes if the maximum before an iteration is greater by b, and that after it by a; both are
// numbers for each row. plus: it grows by `before` * b + `after` * a. times: it is multiplied by exp() of
// that.
struct Form {
  enum Kind : uint8_t { fixed, plus, times, unknown } kind = fixed;
  double before = 0, after = 0;
  const Value* factor = nullptr;  // a scalar that multiplies both; null: 1
  std::vector<int> rows;          // axes of the value that are the maximum's axes longer than 1
  bool pure = false;              // it is this sum, or exp() of this sum, of the maxima themselves

  bool is_fixed() const { return kind == fixed; }
};

bool close(double x, double y) { return std::abs(x - y) <= 1e-6 * std::max({1.0, std::abs(x), std::abs(y)}); }
bool same_growth(const Form& x, const Form& y) {
  return x.factor == y.factor && close(x.before, y.before) && close(x.after, y.after) && x.rows == y.rows;
}
Form none() { return {.kind = Form::unknown}; }
// A form without growth is fixed.
Form tidy(Form form) {
  if (form.kind != Form::unknown && close(form.before, 0) && close(form.after, 0) && !form.pure) return {};
  return form;
}

bool is_number(const Value* value, bool (*which)(double)) {
  const auto constant = constant_of(value);
  return constant && is_floating(value->type.dtype) && which(constant->floating);
}
bool is_zero(const Value* value) {
  return is_number(value, [](double x) { return x == 0; });
}
bool is_infinite(const Value* value) {
  return is_number(value, [](double x) { return std::isinf(x); });
}
// The scalar whose elements all are, through broadcasts and casts; null: it is no such tile.
const Value* scalar_of(const Value* value) {
  while (value->definition && !value->type.is_scalar()) {
    const Op& op = *value->definition;
    if (!op.is("broadcast") && !op.is("reshape")) return nullptr;
    value = op.operands[0];
  }
  return value->type.is_scalar() ? value : nullptr;
}

class Follower {
 public:
  Follower(const std::function<bool(const Op&)>& is_stored) : is_stored_(is_stored) {}

  void set(const Value* value, Form form) { forms_[value] = std::move(form); }
  Form of(const Value* value) const {
    const auto at = forms_.find(value);
    return at == forms_.end() ? Form{} : at->second;
  }
  void follow(const Op& op) {
    if (op.traits().writes) {
      if (!of(op.operands[1]).is_fixed() && is_stored_(op)) changes_ = true;
      for (size_t i = 2; i < op.operands.size(); ++i) changes_ |= !of(op.operands[i]).is_fixed();
      return;
    }
    bool fixed = true;
    for (const Value* operand : op.operands) fixed &= of(operand).is_fixed();
    for (const auto& region : op.regions)
      walk(*region, [&](const Op& each) {
        for (const Value* operand : each.operands) fixed &= of(operand).is_fixed();
      });
    if (fixed) return;
    if (!op.regions.empty())
      for (const auto& region : op.regions)
        walk(*region, [&](const Op& each) { changes_ |= each.traits().writes && is_stored_(each); });
    const Form form = op.regions.empty() && op.results.size() == 1 ? tidy(form_of(op)) : none();
    for (const Value* result : op.results) forms_[result] = form;
  }
  // Returns true if something that is stored changes with the maximum.
  bool changes() const { return changes_; }

 private:
  Form form_of(const Op& op) const {
    Form x = of(op.operands[0]);
    if (x.kind == Form::unknown) return x;
    if (op.is("reshape") || op.is("broadcast")) return moved(op, x);
    if (op.is("permute")) {
      const auto& axes = op.integers("axes");
      for (int& row : x.rows) row = static_cast<int>(std::find(axes.begin(), axes.end(), row) - axes.begin());
      return x;
    }
    if (op.is("detach") ||
        (op.is("astype") && is_floating(op.type(0).dtype) && is_floating(op.result()->type.dtype)))
      return x;
    if (op.is("reduce_sum") || op.is("reduce_max") || op.is("reduce_min")) return reduced(op, x);
    if (op.is("neg")) {
      if (x.kind == Form::plus) x.before = -x.before, x.after = -x.after;
      x.pure &= x.kind == Form::plus;
      return x;
    }
    if (op.is("exp") || op.is("exp2")) return exponential(x, op.is("exp") ? 1 : std::log(2.0));
    if (op.is("log") || op.is("log2")) {
      if (x.kind != Form::times) return none();
      const double by = op.is("log") ? 1 : 1 / std::log(2.0);
      x.kind = Form::plus, x.before *= by, x.after *= by, x.pure = false;
      return x;
    }
    if (op.is("mma")) return product(op);
    if (op.is("where"))
      return of(op.operands[0]).is_fixed() ? either(op.operands[1], op.operands[2]) : none();
    if (op.operands.size() != 2) return none();
    if (op.is("maximum") || op.is("minimum")) return either(op.operands[0], op.operands[1]);
    if (op.is("add") || op.is("sub")) return sum(op, op.is("sub"));
    if (op.is("mul") || op.is("div")) return scaled(op, op.is("div"));
    return none();
  }

  // Through axes of extent 1 that appear or go, and broadcasts along axes that are no rows.
  static Form moved(const Op& op, Form x) {
    const Shape &from = op.type(0).shape, &to = op.result()->type.shape;
    if (op.is("broadcast") && from.size() == to.size()) return x;
    if (x.rows.empty() && (op.is("reshape") || from.empty())) return x;
    std::vector<int> before, after;
    for (size_t i = 0; i < from.size(); ++i)
      if (from[i] != 1) before.push_back(static_cast<int>(i));
    for (size_t i = 0; i < to.size(); ++i)
      if (to[i] != 1) after.push_back(static_cast<int>(i));
    if (!op.is("reshape") || before.size() != after.size()) return none();
    for (size_t i = 0; i < before.size(); ++i)
      if (from[static_cast<size_t>(before[i])] != to[static_cast<size_t>(after[i])]) return none();
    for (int& row : x.rows)
      row = after[static_cast<size_t>(std::find(before.begin(), before.end(), row) - before.begin())];
    return x;
  }

  static Form reduced(const Op& op, Form x) {
    if (op.is("reduce_sum") && x.kind == Form::plus) return none();
    const auto& axes = op.integers("axes");
    for (int& row : x.rows) {
      if (std::find(axes.begin(), axes.end(), row) != axes.end()) return none();
      row -=
          static_cast<int>(std::count_if(axes.begin(), axes.end(), [&](int64_t axis) { return axis < row; }));
    }
    x.pure = false;
    return x;
  }

  static Form exponential(Form x, double by) {
    if (x.kind != Form::plus) return none();
    x.kind = Form::times, x.before *= by, x.after *= by;
    return x;
  }

  // One of two values, or of their elements; zero is any multiple, and infinity any sum.
  Form either(const Value* first, const Value* second) const {
    Form x = of(first), y = of(second);
    if (x.is_fixed()) std::swap(x, y), std::swap(first, second);
    x.pure = false;
    if (y.is_fixed())
      return (x.kind == Form::times && is_zero(second)) || (x.kind == Form::plus && is_infinite(second))
                 ? x
                 : none();
    return x.kind == y.kind && same_growth(x, y) ? x : none();
  }

  Form sum(const Op& op, bool negative) const {
    const Form x = of(op.operands[0]), y = of(op.operands[1]);
    if (x.kind == Form::times || y.kind == Form::times) return either(op.operands[0], op.operands[1]);
    if (x.kind == Form::unknown || y.kind == Form::unknown) return none();
    if (!x.is_fixed() && !y.is_fixed() && (x.factor != y.factor || x.rows != y.rows)) return none();
    Form made = x.is_fixed() ? y : x;
    const double sign = negative ? -1 : 1;
    made.before = x.before + sign * y.before, made.after = x.after + sign * y.after;
    made.pure = x.pure && y.pure;
    return made;
  }

  Form scaled(const Op& op, bool divides) const {
    Form x = of(op.operands[0]), y = of(op.operands[1]);
    if (x.kind == Form::unknown || y.kind == Form::unknown) return none();
    if (x.kind == Form::plus || y.kind == Form::plus) {
      if (divides && !y.is_fixed()) return none();
      const Value* by = op.operands[1];
      if (x.is_fixed()) std::swap(x, y), by = op.operands[0];
      if (!y.is_fixed()) return none();
      if (const auto constant = constant_of(by)) {
        const double factor = divides ? 1 / constant->floating : constant->floating;
        x.before *= factor, x.after *= factor;
        return x;
      }
      const Value* scalar = scalar_of(by);
      if (!scalar || x.factor || divides) return none();
      x.factor = scalar;
      return x;
    }
    if (!x.is_fixed() && !y.is_fixed() && (x.factor != y.factor || x.rows != y.rows)) return none();
    Form made = x.is_fixed() ? y : x;
    const double sign = divides ? -1 : 1;
    made.before = x.before + sign * y.before, made.after = x.after + sign * y.after;
    made.pure = x.pure && y.pure;
    return made;
  }

  Form product(const Op& op) const {
    const Form x = of(op.operands[0]), y = of(op.operands[1]), z = of(op.operands[2]);
    const int rank = static_cast<int>(op.type(0).shape.size());
    const auto has = [](const Form& form, int axis) {
      return std::find(form.rows.begin(), form.rows.end(), axis) != form.rows.end();
    };
    if (!x.is_fixed() && !y.is_fixed()) return none();
    Form made = x.is_fixed() ? y : x;
    if (made.kind != Form::times || has(made, x.is_fixed() ? rank - 2 : rank - 1)) return none();
    made.pure = false;
    if (is_zero(op.operands[2])) return made;
    return z.kind == Form::times && same_growth(made, z) ? made : none();
  }

  const std::function<bool(const Op&)>& is_stored_;
  std::unordered_map<const Value*, Form> forms_;
  bool changes_ = false;
};

class Finder {
 public:
  Finder(const Op& loop, const std::function<bool(const Op&)>& is_stored,
         const std::function<bool(const Value*)>& active)
      : loop_(loop), region_(loop.region()), is_stored_(is_stored), active_(active) {}

  std::optional<OnlineLoop> find() {
    for (size_t k = 0; k < loop_.results.size(); ++k)
      if (active_(loop_.results[k]))
        if (std::optional<OnlineLoop> found = with_maximum(k)) return found;
    return std::nullopt;
  }

 private:
  const Value* carried(size_t k) const { return region_.arguments[1 + k]; }
  const Value* yielded(size_t k) const { return region_.terminator()->operands[k]; }

  Form maximum(double before, double after) const {
    Form form{.kind = Form::plus, .before = before, .after = after, .pure = true};
    const Shape& shape = carried(maximum_)->type.shape;
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != 1) form.rows.push_back(static_cast<int>(i));
    return form;
  }

  std::optional<OnlineLoop> with_maximum(size_t k) {
    maximum_ = k;
    const Op* op = yielded(k)->definition;
    if (!op || op->parent != &region_ || !op->is("maximum")) return std::nullopt;
    if (op->operands[0] != carried(k) && op->operands[1] != carried(k)) return std::nullopt;
    // Sums are those that shrink with the maximum; the other carried values must not depend on it.
    std::vector<bool> sums;
    for (size_t j = 0; j < loop_.results.size(); ++j)
      sums.push_back(j != k && is_floating(carried(j)->type.dtype) && !active_(loop_.operands[3 + j]));
    const std::optional<Form> growth = growth_of_sums();
    if (!growth || active_(loop_.operands[3 + k])) return std::nullopt;
    for (bool again = true; again;) {
      again = false;
      Follower inside(is_stored_);
      follow_body(inside, sums, *growth);
      const Value* other = op->operands[op->operands[0] == carried(k) ? 1 : 0];
      if (!inside.of(other).is_fixed() || inside.changes()) return std::nullopt;
      for (size_t j = 0; j < sums.size(); ++j) {
        if (j == k) continue;
        const Form end = inside.of(yielded(j));
        const bool scales = end.kind == Form::times && close(end.before, 0) && end.factor == growth->factor &&
                            close(end.after, growth->before) && end.rows == rows_of_sum(j);
        if (sums[j] ? scales : end.is_fixed()) continue;
        if (!sums[j]) return std::nullopt;
        sums[j] = false, again = true;
      }
      if (again) continue;
      if (std::none_of(sums.begin(), sums.end(), [](bool each) { return each; })) return std::nullopt;
      Follower behind(is_stored_);
      for (size_t j = 0; j < sums.size(); ++j) {
        if (j == k) behind.set(loop_.results[j], maximum(0, 1));
        if (sums[j]) behind.set(loop_.results[j], inside.of(yielded(j)));
      }
      if (!stays(behind)) return std::nullopt;
      return made(inside);
    }
    return std::nullopt;
  }

  // Finds exp(maximum before - maximum after), or that of a multiple: sums shrink by it.
  std::optional<Form> growth_of_sums() const {
    Follower inside(is_stored_);
    follow_body(inside, std::vector<bool>(loop_.results.size()), {});
    for (const auto& op : region_.ops) {
      if (op->results.size() != 1) continue;
      Form form = inside.of(op->result());
      if (form.kind != Form::times || !form.pure || !close(form.before, -form.after) || close(form.before, 0))
        continue;
      form.before = form.after, form.after = 0;  // a sum before the iteration
      form.pure = false;
      return form;
    }
    return std::nullopt;
  }

  // The maximum's rows are the same axes of a sum. Otherwise the proof fails.
  std::vector<int> rows_of_sum(size_t j) const {
    const Shape &from = carried(maximum_)->type.shape, &shape = carried(j)->type.shape;
    std::vector<int> rows = maximum(1, 0).rows;
    std::erase_if(rows, [&](int row) {
      const auto axis = static_cast<size_t>(row);
      return axis >= shape.size() || shape[axis] != from[axis];
    });
    return rows;
  }

  void follow_body(Follower& inside, const std::vector<bool>& sums, const Form& growth) const {
    inside.set(carried(maximum_), maximum(1, 0));
    for (size_t j = 0; j < sums.size(); ++j) {
      if (!sums[j]) continue;
      Form sum = growth;
      sum.rows = rows_of_sum(j);
      inside.set(carried(j), sum);
    }
    for (const auto& op : region_.ops) {
      if (op->traits().terminator) break;
      inside.follow(*op);
      if (op->results.size() == 1 && op->result() == yielded(maximum_))
        inside.set(op->result(), maximum(0, 1));
    }
  }

  // Returns true if nothing that is stored behind the loop changes with the maximum.
  bool stays(Follower& behind) const {
    const auto& ops = loop_.parent->ops;
    const auto at = std::find_if(ops.begin(), ops.end(), [&](const auto& op) { return op.get() == &loop_; });
    for (auto each = at + 1; each != ops.end(); ++each) {
      const Op& op = **each;
      if (op.traits().terminator)
        for (const Value* operand : op.operands)
          if (!behind.of(operand).is_fixed()) return false;
      if (op.traits().terminator) break;
      behind.follow(op);
    }
    return !behind.changes();
  }

  OnlineLoop made(const Follower& inside) const {
    OnlineLoop found{.maximum = maximum_, .next = yielded(maximum_), .scaled = {}};
    for (const auto& op : region_.ops) {
      if (!op->is("mul")) continue;
      for (size_t i = 0; i < 2; ++i) {
        const Form form = inside.of(op->operands[i]);
        if (form.kind == Form::times && form.pure && close(form.before, -form.after) &&
            !close(form.before, 0))
          found.scaled[op->result()] = 1 - i;
      }
    }
    return found;
  }

  const Op& loop_;
  const Block& region_;
  const std::function<bool(const Op&)>& is_stored_;
  const std::function<bool(const Value*)>& active_;
  size_t maximum_ = 0;
};

}  // namespace

std::unordered_map<const Op*, OnlineLoop> online_loops(const Function& kernel,
                                                       const std::function<bool(const Op&)>& is_stored,
                                                       const std::function<bool(const Value*)>& active) {
  std::unordered_map<const Op*, OnlineLoop> found;
  walk(kernel.body(), [&](const Op& op) {
    if (!op.is("for")) return;
    if (std::optional<OnlineLoop> loop = Finder(op, is_stored, active).find()) found[&op] = std::move(*loop);
  });
  return found;
}

}  // namespace tile
