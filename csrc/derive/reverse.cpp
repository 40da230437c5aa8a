// Decides how the gradient of each array is written, and builds the derived kernel.
#include "derive/reverse.h"

#include <algorithm>

#include "derive/activity.h"
#include "derive/backward.h"
#include "derive/counted_loops.h"
#include "derive/factored_sums.h"
#include "derive/ramp.h"
#include "derive/reach.h"
#include "derive/transposed.h"
#include "ir/build.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "passes/passes.h"

namespace tile {
namespace {

constexpr size_t most_array_axes = 8;  // of a launch

// Puts the body into a loop over blocks of a grid axis, which are dealt to the blocks of a launch.
void fold_blocks(Function& function, int64_t axis) {
  Block& body = function.body();
  std::vector<std::unique_ptr<Op>> ops = std::move(body.ops);
  body.ops.clear();
  Value* count = function.add_argument(body, Type::tile(DType::i32), {});
  Builder build(function, body);
  Value* first = build.emit("bid", {}, {{"axis", axis}});
  Value* step = build.emit("num_blocks", {}, {{"axis", axis}});
  auto region = std::make_unique<Block>();
  Value* index = function.add_argument(*region, first->type, {});
  ValueMap replaced;
  Builder inside(function, *region);
  for (auto& op : ops) inside.insert(std::move(op));
  walk(*region, [&](const Op& op) {
    if (op.is("bid") && op.integer("axis") == axis) replaced[op.result()] = index;
    if (op.is("num_blocks") && op.integer("axis") == axis) replaced[op.result()] = count;
  });
  replace_uses(*region, replaced);
  inside.create(primitive("yield"), {});
  build.insert_for({first, count, step}, {}, std::move(region));
}

Attributes without_hints(const Attributes& attributes) {
  Attributes kept;
  for (const auto& [name, value] : attributes)
    if (!name.starts_with("hint.")) kept.set(name, value);
  return kept;
}

void check_array(const Function& kernel, size_t parameter, const char* what) {
  const auto& parameters = kernel.body().arguments;
  if (parameter >= parameters.size())
    fail(ErrorKind::value, kernel.name(), ": there is no parameter ", parameter, "; it has ",
         parameters.size());
  const Type& type = parameters[parameter]->type;
  if (!type.is_array() || !is_floating(type.dtype))
    fail(ErrorKind::type, kernel.name(), ": parameter ", parameter, " is ", type, "; ", what,
         " is an array of floats");
}

DerivedGradient planned(const Function& kernel, const Activity& activity, const Wanted& wanted,
                        int folded_axis) {
  const std::vector<const Op*>& reads = activity.uses(wanted.parameter).reads;
  const DType own = kernel.body().arguments[wanted.parameter]->type.dtype;
  DerivedGradient gradient{.parameter = wanted.parameter, .dtype = adjoint_dtype(own)};
  // Elements that are picked may be the same in other lanes, unless the only access counts them.
  const bool counts = reads.size() == 1 && !distinct_ramps(*reads[0]).empty();
  if (!counts && std::any_of(reads.begin(), reads.end(), [](const Op* op) { return op->traits().picks; })) {
    gradient.how = DerivedGradient::atomic;
    return gradient;
  }
  const Reach reach = reach_of(kernel, reads);
  gradient.once = reach.once;
  const size_t axes = static_cast<size_t>(kernel.body().arguments[wanted.parameter]->type.array_rank);
  const bool fits = axes + reach.shared.size() <= most_array_axes;
  if (reach.shared.size() == 1 && wanted.sharing == Sharing::owner && reach.once && folded_axis < 0) {
    gradient.how = DerivedGradient::owned;
    gradient.axes = reach.shared;
    if (!wanted.adds) gradient.dtype = own;
  } else if (!reach.shared.empty() && wanted.sharing != Sharing::atomic && fits) {
    gradient.how = DerivedGradient::summed;
    gradient.axes = reach.shared;
  } else if (!reach.shared.empty()) {
    gradient.how = DerivedGradient::atomic;
  } else if (reach.once && !wanted.adds) {
    gradient.how = DerivedGradient::stored;
    gradient.dtype = own;
  } else {
    gradient.how = DerivedGradient::added;
    gradient.once = false;
  }
  const bool stores = gradient.how == DerivedGradient::stored || gradient.how == DerivedGradient::summed;
  if (stores && gradient.once && reads.size() == 1)
    gradient.covers = cover_of(*reads[0], folded_axis >= 0 ? kernel.body().arguments.back() : nullptr);
  // Each block along these axes has a part of its own to cover.
  for (const Cover& cover : gradient.covers)
    if (std::count(gradient.axes.begin(), gradient.axes.end(), cover.grid_axis)) {
      gradient.covers.clear();
      break;
    }
  return gradient;
}

}  // namespace

// Equal accesses become one, and those that do not change in a loop leave it.
Function prepared(const Function& kernel, int folded_axis) {
  Function copy = clone(kernel);
  if (folded_axis >= 0) fold_blocks(copy, folded_axis);
  expand_unless(copy, [](const Primitive& each) { return each.adjoint != nullptr; });
  const auto simplify = [&] {
    for (const char* pass :
         {"fold", "simplify", "simplify_control", "named_reductions", "cse", "licm", "dce"})
      run_pass(pass, copy);
  };
  simplify();
  if (count_loops(copy)) {
    verify(copy, "count_loops");
    simplify();
  }
  return copy;
}

namespace {

Derived reverse_once(const Function& kernel, const std::vector<Wanted>& wanted,
                     const std::vector<size_t>& results, int folded_axis, const std::vector<Keeping>& keeping,
                     const std::vector<size_t>& saved) {
  for (size_t each : results) check_array(kernel, each, "a result");
  std::vector<size_t> inputs;
  for (const Wanted& each : wanted) {
    check_array(kernel, each.parameter, "what has a gradient");
    inputs.push_back(each.parameter);
  }
  Function forward = prepared(kernel, folded_axis);
  const Activity activity(forward, inputs, results, saved);
  for (size_t each : inputs)
    if (const ArrayUses& uses = activity.uses(each); !uses.stores.empty() || !uses.additions.empty())
      fail(ErrorKind::value, kernel.name(), ": writes parameter ", each,
           ", so that it has no gradient; only arrays that the kernel does not write have one");

  Function function(kernel.name() + "_backward");
  function.attributes() = without_hints(kernel.attributes());
  ValueMap copies;
  const auto add = [&](const Type& type) { return function.add_argument(function.body(), type, {}); };
  for (Value* parameter : forward.body().arguments) copies[parameter] = add(parameter->type);
  Builder build(function, function.body());
  for (const auto& op : forward.body().ops) build.insert(clone(*op, function, copies));
  Derived derived(std::move(function), std::move(forward));
  derived.results = results;
  derived.folded_axis = folded_axis;
  walk(derived.kernel.body(), [&](const Op& op) {
    if (!op.is("for")) return;
    const size_t number = derived.keeping.size();
    derived.keeping.push_back(number < keeping.size() ? keeping[number] : Keeping::all);
  });
  TILE_CHECK(keeping.empty() || keeping.size() == derived.keeping.size(), "a way for each loop");
  derived.saved = saved;
  const auto& parameters = derived.kernel.body().arguments;
  const auto append = [&](const Type& type) {
    derived.function.add_argument(derived.function.body(), type, {});
  };
  for (size_t each : results) append(parameters[each]->type);
  for (const Wanted& each : wanted) {
    DerivedGradient gradient = planned(derived.kernel, activity, each, folded_axis);
    gradient.position = derived.function.body().arguments.size();
    const size_t leading = gradient.how == DerivedGradient::summed ? gradient.axes.size() : 0;
    append(
        Type::array(gradient.dtype, parameters[each.parameter]->type.array_rank + static_cast<int>(leading)));
    derived.gradients.push_back(std::move(gradient));
  }
  derived.grid_axes = grid_axes(derived.kernel);
  Backward(derived, activity, copies).run();
  factor_sums(derived.function);
  verify(derived.function, "reverse");
  run_pass("dce", derived.function);
  std::unordered_set<const Value*> written;
  walk(derived.function.body(), [&](const Op& op) {
    if (op.traits().writes) written.insert(root_array(op.operands[0]));
  });
  for (DerivedGradient& gradient : derived.gradients)  // an array that results do not depend on has no stores
    if (!written.contains(derived.function.body().arguments[gradient.position])) gradient.covers.clear();
  return derived;
}

}  // namespace

Derived reverse(const Function& kernel, const std::vector<Wanted>& wanted, const std::vector<size_t>& results,
                int folded_axis, const std::vector<Keeping>& keeping, const std::vector<size_t>& saved) {
  std::vector<Wanted> ways = wanted;
  std::vector<std::string> reasons(wanted.size());
  while (true) {
    Derived derived = reverse_once(kernel, ways, results, folded_axis, keeping, saved);
    bool again = false;
    const std::vector<std::string> why = transpose_owned(derived, ways);
    for (size_t i = 0; i < why.size(); ++i)
      if (!why[i].empty()) ways[i].sharing = Sharing::partial, reasons[i] = why[i], again = true;
    if (again) continue;
    for (size_t i = 0; i < reasons.size(); ++i) derived.gradients[i].why = std::move(reasons[i]);
    return derived;
  }
}

bool has_effects(const Function& function) {
  return std::any_of(function.body().ops.begin(), function.body().ops.end(),
                     [](const auto& op) { return !effects_of(*op).writes.empty(); });
}

Differentiable differentiable_parameters(const Function& kernel) {
  const auto& parameters = kernel.body().arguments;
  std::vector<bool> read(parameters.size()), written(parameters.size());
  walk(kernel.body(), [&](const Op& op) {
    if (!op.traits().reads && !op.traits().writes) return;
    const auto at = std::find(parameters.begin(), parameters.end(), root_array(op.operands[0]));
    auto& list = op.traits().writes ? written : read;
    list[static_cast<size_t>(at - parameters.begin())] = true;
  });
  Differentiable found;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i]->type.is_array() || !is_floating(parameters[i]->type.dtype)) continue;
    if (written[i])
      found.results.push_back(i);
    else if (read[i])
      found.inputs.push_back(i);
  }
  return found;
}

std::string how_text(const DerivedGradient& gradient) {
  switch (gradient.how) {
    case DerivedGradient::stored:
      return "stored";
    case DerivedGradient::added:
      return "added up in its block";
    case DerivedGradient::atomic:
      return "added by atomics";
    case DerivedGradient::owned:
      return str("stored by a kernel that loops over grid axis ", gradient.axes.at(0));
    case DerivedGradient::summed:
      break;
  }
  return str("summed over grid axis ", join(gradient.axes, " and "));
}

}  // namespace tile
