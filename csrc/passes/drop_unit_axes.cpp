// If a reshape drops a loaded tile's axes of extent 1, the tile is loaded without them; if a reshape adds
// them before a store, the tile is stored without them. The accessed view has these axes fixed. Targets then
// access the tile that the kernel computes with.
#include <algorithm>
#include <unordered_map>

#include "passes/comparisons.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tile {
namespace {

using Axes = std::vector<bool>;  // by axis of a tile: true for those to drop

bool any(const Axes& axes) { return std::find(axes.begin(), axes.end(), true) != axes.end(); }

// Returns the axes of extent 1 that a reshape to `to` removes; none if it does more than add and remove such
// axes.
Axes dropped(const Shape& from, const Shape& to) {
  Axes gone(from.size());
  size_t j = to.size();
  for (size_t i = from.size(); i-- > 0;) {
    while (j > 0 && to[j - 1] == 1 && from[i] != 1) --j;
    if (j > 0 && to[j - 1] == from[i])
      --j;
    else if (from[i] == 1)
      gone[i] = true;
    else
      return Axes(from.size());
  }
  const auto is_1 = [](int64_t extent) { return extent == 1; };
  return std::all_of(to.begin(), to.begin() + static_cast<ptrdiff_t>(j), is_1) ? gone : Axes(from.size());
}

template <class List>
List left(const List& list, const Axes& gone) {
  List kept;
  for (size_t i = 0; i < gone.size(); ++i)
    if (!gone[i]) kept.push_back(list[i]);
  return kept;
}

class Dropper {
 public:
  explicit Dropper(Function& function) : rewrite_(function) {
    bool multiplies = false;
    walk(function.body(), [&](const Op& op) {
      multiplies |= op.is("mma");
      for (const Value* operand : op.operands) users_[operand].push_back(&op);
    });
    if (!multiplies) return;
    rewrite_.run(function.body(), [&](Op& op) { return visit(op); });
  }
  bool changed() const { return rewrite_.changed; }

 private:
  Keep visit(Op& op) {
    if (const auto found = followers_.find(&op); found != followers_.end()) return follow(op, found->second);
    const Access* access = find_access(op.name());
    if (!access) return Keep::yes;
    return access->first_index == 1 ? load(op) : store(op);
  }

  // Returns the axes that all users of a tile drop, after casts and permutations.
  Axes unwanted(const Value* value) const {
    const Shape& shape = value->type.shape;
    Axes all(shape.size(), true);
    const auto found = users_.find(value);
    if (found == users_.end()) return Axes(shape.size());
    for (const Op* user : found->second) {
      Axes own(shape.size());
      if (user->is("reshape")) {
        own = dropped(shape, user->result()->type.shape);
      } else if (user->is("astype")) {
        own = unwanted(user->result());
      } else if (user->is("permute")) {
        const Axes of_result = unwanted(user->result());
        for (size_t i = 0; i < own.size(); ++i)
          own[static_cast<size_t>(user->integers("axes")[i])] = of_result[i];
      }
      for (size_t i = 0; i < all.size(); ++i) all[i] = all[i] && own[i];
    }
    return all;
  }

  // Replaces later uses of `old` by `x`, which lacks these axes.
  void lose(Value* old, Value* x, const Axes& gone) {
    for (const Op* user : users_[old]) followers_.emplace(user, gone);
    rewrite_.replace(old, x);
  }

  // Adapts a user of a tile that lost axes.
  Keep follow(Op& op, const Axes& gone) {
    Builder& build = rewrite_.build;
    Value* x = op.operands[0];
    if (op.is("reshape")) {
      const Shape& shape = op.result()->type.shape;
      rewrite_.replace(op.result(),
                       x->type.shape == shape ? x : build.emit("reshape", {x}, {{"shape", shape}}));
    } else if (op.is("astype")) {
      lose(op.result(), build.emit("astype", {x}, {{"dtype", op.dtype("dtype")}}), gone);
    } else {
      Axes permuted;
      std::vector<int64_t> axes;
      for (const int64_t axis : op.integers("axes")) {
        permuted.push_back(gone[static_cast<size_t>(axis)]);
        if (!permuted.back()) axes.push_back(axis - std::count(gone.begin(), gone.begin() + axis, true));
      }
      lose(op.result(), build.emit("permute", {x}, {{"axes", axes}}), permuted);
    }
    return Keep::no;
  }

  // Returns an access's operands without these axes: its array, the stored value, its indices.
  std::vector<Value*> operands(const Op& op, size_t first_index, const Axes& gone, Value* stored) {
    std::vector<int64_t> order;
    std::vector<Value*> fixed{op.operands[0]}, kept;
    for (const bool now : {true, false})
      for (size_t i = 0; i < gone.size(); ++i)
        if (gone[i] == now) {
          order.push_back(static_cast<int64_t>(i));
          (now ? fixed : kept).push_back(op.operands[first_index + i]);
        }
    if (!std::is_sorted(order.begin(), order.end()))
      fixed[0] = rewrite_.build.emit("permute_array", {fixed[0]}, {{"axes", order}});
    if (stored) kept.insert(kept.begin(), stored);
    kept.insert(kept.begin(), rewrite_.build.emit("index", std::move(fixed)));
    return kept;
  }
  // Returns the axes of `gone` that the access can drop. An index with a step other than 1 stays, and so do
  // the last axes, whose elements may be adjacent.
  static Axes ready(const Op& op, const Shape& shape, Axes gone) {
    for (size_t i = gone.size(); i-- > 0 && shape[i] == 1;) gone[i] = false;
    for (size_t i = 0; i < gone.size(); ++i) gone[i] = gone[i] && op.integers("steps")[i] == 1;
    return gone;
  }
  static Attributes attributes(const Op& op, const Axes& gone) {
    Attributes all = op.attributes;
    for (const char* name : {"shape", "steps"})
      if (op.has(name)) all.set(name, left(op.integers(name), gone));
    return all;
  }

  Keep load(Op& op) {
    const Axes gone = ready(op, op.result()->type.shape, unwanted(op.result()));
    if (!any(gone)) return Keep::yes;
    lose(op.result(), rewrite_.build.emit("load", operands(op, 1, gone, nullptr), attributes(op, gone)),
         gone);
    return Keep::no;
  }

  Keep store(Op& op) {
    const Op* made = op.operands[1]->definition;
    const Op* cast = made && made->is("astype") ? made : nullptr;
    if (cast) made = cast->operands[0]->definition;
    if (!made || !made->is("reshape")) return Keep::yes;
    Value* x = made->operands[0];
    const Shape& shape = op.type(1).shape;
    const Axes gone = ready(op, shape, dropped(shape, x->type.shape));
    if (!any(gone)) return Keep::yes;
    if (cast) x = rewrite_.build.emit("astype", {x}, {{"dtype", cast->dtype("dtype")}});
    if (const Shape to = left(shape, gone); x->type.shape != to)
      x = rewrite_.build.emit("reshape", {x}, {{"shape", to}});
    rewrite_.build.create(*op.primitive, operands(op, 2, gone, x), attributes(op, gone));
    return Keep::no;
  }

  Rewriter rewrite_;
  std::unordered_map<const Value*, std::vector<const Op*>> users_;
  std::unordered_map<const Op*, Axes> followers_;  // ops whose operand lost axes
};

}  // namespace

bool drop_unit_axes(Function& function) { return Dropper(function).changed(); }

}  // namespace tile
