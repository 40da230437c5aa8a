// Two executions of an access that reach one element have equal tile indices. From these follow further equal
// scalars, down to the block index and the loop indices: where all are equal, it is the same execution.
#include "derive/reach.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "derive/ramp.h"
#include "ir/walk.h"

namespace tile {
namespace {

const Value* without_casts(const Value* value) {
  while (value->definition && value->definition->is("astype") && is_integer(value->definition->type(0).dtype))
    value = value->definition->operands[0];
  return value;
}
const Op* op_named(const Value* value, std::string_view name) {
  value = without_casts(value);
  return value->definition && value->definition->is(name) ? value->definition : nullptr;
}
bool same(const Value* x, const Value* y) {
  x = without_casts(x), y = without_casts(y);
  if (x == y) return true;
  const auto a = constant_of(x), b = constant_of(y);
  return a && b && a->integer == b->integer;
}

// One index of an access: equal elements have equal indices, if all of `starts` are equal.
struct Coordinate {
  const Value* array;
  size_t position;
  Value* index;
  int64_t step, extent;
  std::vector<Value*> starts;  // of the slices in between
};

bool is_tile_access(const Op& op) { return op.has("steps") && !op.traits().picks; }

std::vector<Coordinate> coordinates_of(const Op& op) {
  std::vector<Coordinate> list;
  const size_t first = op.traits().writes ? 2 : 1;
  if (is_tile_access(op)) {
    const Shape& shape = op.traits().writes ? op.type(1).shape : op.integers("shape");
    for (size_t i = 0; i < shape.size(); ++i)
      list.push_back({op.operands[0], i, op.operands[first + i], op.integers("steps")[i], shape[i], {}});
  }
  const std::vector<Ramp> ramps = distinct_ramps(op);
  for (size_t i = 0; i < ramps.size(); ++i) {
    if (ramps[i].scalars.size() != 1) continue;
    Value* start = ramps[i].scalars[0];
    const Op* product = op_named(start, "mul");
    for (size_t k = 0; product && k < 2; ++k)
      if (const auto step = constant_of(without_casts(product->operands[k])))
        list.push_back({op.operands[0], i, product->operands[1 - k], step->integer, ramps[i].extent, {}});
    if (ramps[i].extent == 1) list.push_back({op.operands[0], i, start, 1, 1, {}});
  }
  const auto add_start = [&](Value* start) {
    for (Coordinate& each : list) each.starts.push_back(start);
  };
  for (const Op* view = op.operands[0]->definition; view; view = view->operands[0]->definition)
    if (view->is("slice"))
      add_start(view->operands[1]);
    else if (view->is("index"))
      for (size_t i = 1; i < view->operands.size(); ++i)
        list.push_back({view->operands[0], i - 1, view->operands[i], 1, 1, {}});
  return list;
}

// The for loops around an op, and the conditions under which it runs.
std::vector<const Op*> loops_around(const Op& op) {
  std::vector<const Op*> loops;
  for (const Op* at = op.parent->parent; at; at = at->parent->parent)
    if (at->is("for") || at->is("loop")) loops.push_back(at);
  return loops;
}

class Equal {
 public:
  void add(const std::vector<Coordinate>& coordinates) {
    coordinates_.insert(coordinates_.end(), coordinates.begin(), coordinates.end());
  }
  void add_conditions_around(const Op& op) {
    const Block* inner = op.parent;
    for (const Op* at = inner->parent; at; inner = at->parent, at = inner->parent)
      if (at->is("if") && &at->region(0) == inner) conditions_.push_back(at->operands[0]);
  }
  void follow() {
    size_t before;
    do {
      before = values_.size() + axes_.size();
      for (const Coordinate& each : coordinates_)
        if (each.extent <= each.step &&
            std::all_of(each.starts.begin(), each.starts.end(), [&](Value* start) { return is(start); }))
          learn(each.index);
      for (const Value* condition : conditions_) learn_condition(condition);
      for (const Value* value : std::vector<const Value*>(values_.begin(), values_.end())) from(value);
    } while (values_.size() + axes_.size() != before);
  }

  bool axis(int64_t axis) const { return axes_.contains(axis); }
  bool is(const Value* value) const {
    if (values_.contains(value)) return true;
    const Op* op = value->definition;
    if (!op) return !value->owner->parent;  // a parameter, but no loop index
    if (op->is("bid")) return axis(op->integer("axis"));
    // A load of what no block writes gives the same value at the same index.
    if (!op->regions.empty() || !(op->traits().pure() || (op->traits().reads && !op->traits().acts())))
      return false;
    return std::all_of(op->operands.begin(), op->operands.end(), [&](const Value* each) { return is(each); });
  }

 private:
  void learn(const Value* value) {
    if (value->type.is_array() || !is_integer(value->type.dtype) || !value->type.is_scalar()) return;
    if (constant_of(value) || !values_.insert(value).second) return;
    from(value);
  }
  void learn_condition(const Value* condition) {
    const Op* op = condition->definition;
    if (!op) return;
    if (op->is("bitwise_and")) {
      learn_condition(op->operands[0]);
      learn_condition(op->operands[1]);
    } else if (op->is("eq")) {
      if (is(op->operands[0])) learn(op->operands[1]);
      if (is(op->operands[1])) learn(op->operands[0]);
    }
  }

  // Draws conclusions from a value that is equal.
  void from(const Value* value) {
    const Op* op = value->definition;
    if (!op) return from_index(value);
    if (op->is("bid")) axes_.insert(op->integer("axis"));
    if (op->is("astype") && info(op->type(0).dtype).bits <= info(value->type.dtype).bits)
      learn(op->operands[0]);
    if (op->is("add") || op->is("sub")) {
      if (is(op->operands[0])) learn(op->operands[1]);
      if (is(op->operands[1])) learn(op->operands[0]);
    }
    if (op->is("add")) {
      digits(op->operands[0], op->operands[1]);
      digits(op->operands[1], op->operands[0]);
    }
    if (op->is("mul"))
      for (size_t i = 0; i < 2; ++i)
        if (const auto factor = constant_of(op->operands[i]);
            (factor && factor->integer != 0) || op_named(op->operands[i], "num_blocks"))
          learn(op->operands[1 - i]);
    // A quotient and its remainder.
    if (op->is("floordiv") || op->is("mod"))
      for (const Value* other : std::vector<const Value*>(values_.begin(), values_.end())) {
        const Op* second = other->definition;
        if (second && second->is(op->is("mod") ? "floordiv" : "mod") &&
            second->operands[0] == op->operands[0] && same(second->operands[1], op->operands[1]))
          learn(op->operands[0]);
      }
  }
  // A loop from bid(axis) in steps of num_blocks(axis) deals its indices to the blocks of the axis.
  void from_index(const Value* index) {
    const Op* loop = index->owner->parent;
    if (!loop || !loop->is("for") || loop->region().arguments[0] != index) return;
    const Op *low = op_named(loop->operands[0], "bid"), *step = op_named(loop->operands[2], "num_blocks");
    if (low && step && low->integer("axis") == step->integer("axis")) axes_.insert(low->integer("axis"));
    from_range(*loop);
  }
  // A loop over b * n <= index < (b + 1) * n determines b.
  void from_range(const Op& loop) {
    const Op* low = op_named(loop.operands[0], "mul");
    if (!low) return;
    std::vector<const Value*> highs{loop.operands[1]};
    if (const Op* least = op_named(loop.operands[1], "minimum"))
      highs = {least->operands[0], least->operands[1]};
    for (size_t i = 0; i < 2; ++i) {
      const Value *b = low->operands[1 - i], *n = low->operands[i];
      if (!is(n)) continue;
      for (const Value* high : highs)
        if (is_next(high, loop.operands[0], b, n)) learn(b);
    }
  }
  // Returns true if value is (b + 1) * n or start + n.
  static bool is_next(const Value* value, const Value* start, const Value* b, const Value* n) {
    const auto either = [](const Op* op, const auto& first, const auto& second) {
      return op && ((first(op->operands[0]) && second(op->operands[1])) ||
                    (first(op->operands[1]) && second(op->operands[0])));
    };
    const auto is_n = [&](const Value* each) { return same(each, n); };
    const auto is_start = [&](const Value* each) { return same(each, start); };
    const auto is_b = [&](const Value* each) { return same(each, b); };
    const auto is_one = [](const Value* each) {
      const auto constant = constant_of(without_casts(each));
      return constant && constant->integer == 1;
    };
    const auto is_after_b = [&](const Value* each) { return either(op_named(each, "add"), is_b, is_one); };
    return either(op_named(value, "add"), is_start, is_n) || either(op_named(value, "mul"), is_after_b, is_n);
  }
  // high * n + low with 0 <= low < n determines both.
  void digits(const Value* high, const Value* low) {
    const Op* product = op_named(high, "mul");
    if (!product) return;
    for (size_t i = 0; i < 2; ++i)
      if (is(product->operands[i]) && is_below(low, product->operands[i])) {
        learn(product->operands[1 - i]);
        learn(without_casts(low));
      }
  }
  static bool at_most(const Value* x, const Value* y) {
    if (const Op* least = op_named(x, "minimum"); least && !same(x, y))
      return at_most(least->operands[0], y) || at_most(least->operands[1], y);
    const auto a = constant_of(without_casts(x)), b = constant_of(without_casts(y));
    return same(x, y) || (a && b && a->integer <= b->integer);
  }
  // Returns true if 0 <= value < n.
  static bool is_below(const Value* value, const Value* n) {
    value = without_casts(value);
    if (const Op* mod = op_named(value, "mod")) return at_most(mod->operands[1], n);
    if (const Op* bid = op_named(value, "bid")) {
      const Op* blocks = op_named(n, "num_blocks");
      return blocks && blocks->integer("axis") == bid->integer("axis");
    }
    const Op* loop = value->definition ? nullptr : value->owner->parent;
    if (!loop || !loop->is("for") || loop->region().arguments[0] != value) return false;
    const auto low = constant_of(without_casts(loop->operands[0]));
    return low && low->integer >= 0 && at_most(loop->operands[1], n);
  }

  std::vector<Coordinate> coordinates_;
  std::vector<const Value*> conditions_;
  std::unordered_set<const Value*> values_;
  std::unordered_set<int64_t> axes_;
};

// A sum of multiples of `factor`, plus a constant.
struct Progression {
  int64_t factor = 0, constant = 0;
};
Progression progression_of(const Value* value) {
  value = without_casts(value);
  if (const auto constant = constant_of(value)) return {0, constant->integer};
  const Op* op = value->definition;
  if (op && (op->is("add") || op->is("sub"))) {
    const Progression x = progression_of(op->operands[0]), y = progression_of(op->operands[1]);
    return {std::gcd(x.factor, y.factor), op->is("add") ? x.constant + y.constant : x.constant - y.constant};
  }
  if (op && op->is("mul"))
    for (size_t i = 0; i < 2; ++i)
      if (const auto factor = constant_of(without_casts(op->operands[i]))) {
        const Progression x = progression_of(op->operands[1 - i]);
        return {x.factor * factor->integer, x.constant * factor->integer};
      }
  return {1, 0};
}

bool slices_apart(const Op& x, const Op& y) {
  const Equal nothing;
  const auto ends_before = [&](const Op& left, const Op& right) {
    const auto stop = constant_of(left.operands[2]), start = constant_of(right.operands[1]);
    if (stop && start) return stop->integer <= start->integer;
    return left.operands[2] == right.operands[1] && nothing.is(left.operands[2]);
  };
  for (const Op* left = x.operands[0]->definition; left; left = left->operands[0]->definition)
    for (const Op* right = y.operands[0]->definition; right; right = right->operands[0]->definition)
      if (left->is("slice") && right->is("slice") && left->operands[0] == right->operands[0] &&
          left->integer("axis") == right->integer("axis") &&
          (ends_before(*left, *right) || ends_before(*right, *left)))
        return true;
  return false;
}

// Returns true if the two never reach one element, whatever the blocks and iterations.
bool disjoint(const Op& x, const Op& y) {
  const Equal nothing;
  if (slices_apart(x, y)) return true;
  for (const Coordinate& a : coordinates_of(x))
    for (const Coordinate& b : coordinates_of(y)) {
      if (a.array != b.array || a.position != b.position) continue;
      // Both count from the same place only if no start of a slice differs between executions.
      if (!std::all_of(a.starts.begin(), a.starts.end(), [&](Value* start) { return nothing.is(start); }))
        continue;
      const Progression p = progression_of(a.index), q = progression_of(b.index);
      const int64_t factor = std::gcd(p.factor, q.factor);
      if (factor == 0) {
        const int64_t first = p.constant * a.step, second = q.constant * b.step;
        if (first + a.extent <= second || second + b.extent <= first) return true;
      } else if (a.step == b.step && a.extent <= a.step && b.extent <= b.step &&
                 (p.constant - q.constant) % factor != 0) {
        return true;
      }
    }
  return false;
}

// Returns true if both have one address and are in different branches of one `if`.
bool alternatives(const Op& x, const Op& y) {
  const size_t first = x.traits().writes ? 2 : 1;
  if (x.primitive != y.primitive || !(x.attributes == y.attributes) || x.operands[0] != y.operands[0] ||
      !std::equal(x.operands.begin() + static_cast<ptrdiff_t>(first), x.operands.end(),
                  y.operands.begin() + static_cast<ptrdiff_t>(first), y.operands.end()))
    return false;
  const Op *a = x.parent->parent, *b = y.parent->parent;
  return a && a == b && a->is("if") && x.parent != y.parent;
}

Reach reach_by(const Function& function, const Equal& equal, const std::vector<const Op*>& loops) {
  Reach reach;
  for (int axis : grid_axes(function))
    if (!equal.axis(axis)) reach.shared.push_back(axis);
  for (const Op* loop : loops) reach.once &= loop->is("for") && equal.is(loop->region().arguments[0]);
  return reach;
}

Reach reach_of_one(const Function& function, const Op& access, bool conditions) {
  Equal equal;
  equal.add(coordinates_of(access));
  if (conditions) equal.add_conditions_around(access);
  equal.follow();
  return reach_by(function, equal, loops_around(access));
}

}  // namespace

std::vector<int> grid_axes(const Function& function) {
  std::set<int> axes;
  walk(function.body(), [&](const Op& op) {
    if (op.is("bid")) axes.insert(static_cast<int>(op.integer("axis")));
  });
  return {axes.begin(), axes.end()};
}

Reach reach_of(const Function& function, const std::vector<const Op*>& accesses) {
  if (accesses.empty()) return {};
  if (accesses.size() == 1) return reach_of_one(function, *accesses[0], true);
  std::set<int> shared;
  bool apart = true;
  for (size_t i = 0; i < accesses.size(); ++i) {
    bool alternative = false;
    for (size_t k = 0; k < accesses.size(); ++k) {
      if (k == i) continue;
      const bool either = alternatives(*accesses[i], *accesses[k]);
      apart &= either || disjoint(*accesses[i], *accesses[k]);
      alternative |= either;
    }
    const Reach one = reach_of_one(function, *accesses[i], !alternative);
    apart &= one.once;
    shared.insert(one.shared.begin(), one.shared.end());
  }
  if (apart) return {.shared = {shared.begin(), shared.end()}};
  // Blocks are told apart by the indices that all accesses have in common.
  std::vector<Coordinate> common = coordinates_of(*accesses[0]);
  for (size_t i = 1; i < accesses.size(); ++i) {
    const std::vector<Coordinate> others = coordinates_of(*accesses[i]);
    std::erase_if(common, [&](Coordinate& each) {
      const auto match = std::find_if(others.begin(), others.end(), [&](const Coordinate& other) {
        return other.array == each.array && other.position == each.position && other.index == each.index &&
               other.step == each.step;
      });
      if (match == others.end()) return true;
      each.extent = std::max(each.extent, match->extent);
      return false;
    });
  }
  Equal equal;
  equal.add(common);
  equal.follow();
  Reach all = reach_by(function, equal, {});
  all.once = false;
  return all;
}

namespace {

// Returns true if the loop counts all tiles of an axis, perhaps dealt to the blocks of a grid axis.
bool counts_all(const Op& loop, const Value* array, size_t axis, int64_t extent) {
  const auto low = constant_of(without_casts(loop.operands[0]));
  const auto step = constant_of(without_casts(loop.operands[2]));
  const Op *first = op_named(loop.operands[0], "bid"), *by = op_named(loop.operands[2], "num_blocks");
  const bool dealt = first && by && first->integer("axis") == by->integer("axis");
  if (!dealt && !(low && low->integer == 0 && step && step->integer == 1)) return false;
  const Op* high = without_casts(loop.operands[1])->definition;
  if (extent > 1) {
    if (!high || !high->is("cdiv")) return false;
    const auto by_extent = constant_of(without_casts(high->operands[1]));
    if (!by_extent || by_extent->integer != extent) return false;
    high = without_casts(high->operands[0])->definition;
  }
  return high && high->is("dim") && high->operands[0] == array &&
         high->integer("axis") == static_cast<int64_t>(axis);
}

}  // namespace

std::vector<Cover> cover_of(const Op& access, const Value* blocks) {
  if (!is_tile_access(access)) return {};  // indices and masks may leave elements out
  const Value* array = access.operands[0];
  std::vector<Coordinate> coordinates = coordinates_of(access);
  if (array->definition) {  // one view that fixes the leading axes comes first
    const Op& view = *array->definition;
    if (!view.is("index") || view.operands[0]->definition) return {};
    std::rotate(coordinates.begin(), coordinates.end() - static_cast<ptrdiff_t>(view.operands.size() - 1),
                coordinates.end());
    array = view.operands[0];
  }
  std::vector<const Op*> loops;
  for (const Op* at = access.parent->parent; at; at = at->parent->parent) {
    if (!at->is("for")) return {};
    loops.push_back(at);
  }
  std::vector<Cover> covers;
  std::unordered_set<int64_t> axes;
  for (size_t axis = 0; axis < coordinates.size(); ++axis) {
    const Coordinate& each = coordinates[axis];
    const Value* index = without_casts(each.index);
    const auto constant = constant_of(index);
    if (constant && constant->integer == 0) {
      covers.push_back({-1, each.extent, false});
      continue;
    }
    if (each.step != each.extent) return {};
    if (const Op* bid = op_named(index, "bid")) {
      if (!axes.insert(bid->integer("axis")).second) return {};
      covers.push_back({static_cast<int>(bid->integer("axis")), each.extent, false});
      continue;
    }
    const Op* loop = index->definition ? nullptr : index->owner->parent;
    const auto found = std::find(loops.begin(), loops.end(), loop);
    if (found == loops.end()) return {};
    const Op* first = op_named(loop->operands[0], "bid");
    const bool folded = blocks && loop->operands[1] == blocks;
    if (!folded && !counts_all(*loop, array, axis, each.extent)) return {};
    if (first && !axes.insert(first->integer("axis")).second) return {};
    loops.erase(found);
    covers.push_back({folded ? static_cast<int>(first->integer("axis")) : -1, each.extent, !folded});
  }
  if (!loops.empty()) return {};
  return covers;
}

namespace {

// Returns everything that the address, or the condition under which it is used, is computed from.
std::unordered_set<const Value*> sources_of(const Op& access) {
  std::unordered_set<const Value*> seen;
  std::vector<const Value*> work(access.operands.begin() + (access.traits().writes ? 2 : 1),
                                 access.operands.end());
  for (const Op* view = access.operands[0]->definition; view; view = view->operands[0]->definition)
    work.insert(work.end(), view->operands.begin() + 1, view->operands.end());
  for (const Op* at = access.parent->parent; at; at = at->parent->parent)
    if (at->is("if")) work.push_back(at->operands[0]);
  while (!work.empty()) {
    const Value* value = work.back();
    work.pop_back();
    if (!seen.insert(value).second) continue;
    const Op* op = value->definition;
    if (!op) {
      if (const Op* loop = value->owner->parent; loop && loop->is("for"))  // its bounds may deal indices
        work.insert(work.end(), loop->operands.begin(), loop->operands.begin() + 3);
      continue;
    }
    work.insert(work.end(), op->operands.begin(), op->operands.end());
    for (const auto& region : op->regions)
      walk(*region,
           [&](const Op& each) { work.insert(work.end(), each.operands.begin(), each.operands.end()); });
  }
  return seen;
}

}  // namespace

bool is_loaded(const Op& access) {
  const std::unordered_set<const Value*> sources = sources_of(access);
  return std::any_of(sources.begin(), sources.end(), [](const Value* value) {
    return value->definition && value->definition->traits().reads;
  });
}

std::string ignored_by(const Function& function, const Op& access) {
  const std::unordered_set<const Value*> sources = sources_of(access);
  std::unordered_set<int64_t> axes;
  for (const Value* value : sources)
    if (value->definition && value->definition->is("bid")) axes.insert(value->definition->integer("axis"));
  for (int axis : grid_axes(function))
    if (!axes.contains(axis)) return str("bid(", axis, ")");
  for (const Op* loop : loops_around(access))
    if (!loop->is("for") || !sources.contains(loop->region().arguments[0]))
      return str("the loop at ", loop->location);
  return {};
}

}  // namespace tile
