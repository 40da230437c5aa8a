// Jumps become results of branches: what follows a branch that jumps goes into its other region, or behind a
// flag if both may go on.
#include "derive/iteration_paths.h"

namespace tile {
namespace {

std::vector<Type> types_of(const std::vector<Value*>& values) {
  std::vector<Type> types;
  for (const Value* value : values) types.push_back(value->type);
  return types;
}

}  // namespace

unsigned ends_of(const Block& block, size_t first) {
  unsigned all = 0;
  for (size_t i = first; i < block.ops.size(); ++i) {
    const Op& op = *block.ops[i];
    if (op.is("yield")) return all | falls;
    if (op.is("continue")) return all | continues;
    if (op.is("break")) return all | leaves;
    if (!has_jump(op)) continue;
    const unsigned both = ends_of(op.region(0)) | ends_of(op.region(1));
    all |= both & ~static_cast<unsigned>(falls);
    if (!(both & falls)) break;
  }
  return all;
}

Value* IterationPaths::of(Value* value) const {
  const auto at = map_.find(value);
  return at == map_.end() ? value : at->second;
}
std::vector<Value*> IterationPaths::of(const std::vector<Value*>& values) const {
  std::vector<Value*> copies;
  for (Value* value : values) copies.push_back(of(value));
  return copies;
}

// rest: what follows the block may end by a jump of kinds_.
bool IterationPaths::may_end(const Block& block, size_t first, bool rest) const {
  if (&block == untaken_) return false;
  const unsigned ends = ends_of(block, first);
  return (ends & kinds_) || ((ends & falls) && rest);
}

IterationPaths::Outcome IterationPaths::emit(const Block& block, size_t first, bool rest) {
  for (size_t i = first; i < block.ops.size(); ++i) {
    const Op& op = *block.ops[i];
    if (op.is("yield")) return {.yields = of(op.operands)};
    if (op.traits().terminator) return {.always = true, .values = of(op.operands)};
    if (!has_jump(op)) {
      build_.location = op.location;
      build_.insert(clone(op, build_.function(), map_));
      continue;
    }
    const bool after = may_end(block, i + 1, rest);
    const bool first_runs = may_end(op.region(0), 0, after), second_runs = may_end(op.region(1), 0, after);
    if (first_runs != second_runs)
      return go_on(emit(op.region(first_runs ? 0 : 1), 0, after), op, block, i + 1, rest);
    // If one region always jumps, the rest of the block belongs to the other.
    const auto region = [&](size_t which) {
      const bool alone = !(ends_of(op.region(1 - which)) & falls) && (ends_of(op.region(which)) & falls);
      return branch([&] {
        Outcome own = emit(op.region(which), 0, after);
        return alone ? go_on(std::move(own), op, block, i + 1, rest) : own;
      });
    };
    Value* condition = of(op.operands[0]);
    Branch then = region(0), otherwise = region(1);
    build_.location = op.location;
    const bool alone = (ends_of(op.region(0)) ^ ends_of(op.region(1))) & falls;
    Outcome both = join(condition, std::move(then), std::move(otherwise));
    return alone ? both : go_on(std::move(both), op, block, i + 1, rest);
  }
  return {};
}

// Emits what follows a branch with this outcome.
IterationPaths::Outcome IterationPaths::go_on(Outcome outcome, const Op& branch_op, const Block& block,
                                              size_t first, bool rest) {
  if (outcome.always) return outcome;
  for (size_t i = 0; i < branch_op.results.size(); ++i) map_[branch_op.results[i]] = outcome.yields.at(i);
  if (!outcome.jumps) return emit(block, first, rest);
  Value* jumps = outcome.jumps;
  Branch jumped = branch([&] { return Outcome{.always = true, .values = std::move(outcome.values)}; });
  Branch goes_on = branch([&] { return emit(block, first, rest); });
  build_.location = branch_op.location;
  return join(jumps, std::move(jumped), std::move(goes_on));
}

// Emits into a block of its own.
template <class F>
IterationPaths::Branch IterationPaths::branch(F&& emit) {
  Block& outside = build_.block();
  const size_t position = build_.position();
  Branch made;
  build_.to_end(*made.block);
  made.outcome = emit();
  build_.at(outside, position);
  return made;
}

// Inserts an `if` of two blocks. If they differ in whether they jump, its first result says so, and the
// values of the other case are zeros, which nothing reads.
IterationPaths::Outcome IterationPaths::join(Value* condition, Branch then, Branch otherwise) {
  const Outcome &x = then.outcome, &y = otherwise.outcome;
  const bool always = x.always && y.always;
  const bool never = !x.always && !x.jumps && !y.always && !y.jumps;
  const std::vector<Type> values = types_of(x.values.empty() ? y.values : x.values);
  const std::vector<Type> yields = types_of(x.yields.empty() ? y.yields : x.yields);
  const bool flagged = !always && !never;
  yield(then, flagged, values, yields);
  yield(otherwise, flagged, values, yields);
  const std::vector<Value*> results =
      build_.insert_if(condition, std::move(then.block), std::move(otherwise.block)).results;
  if (always) return {.always = true, .values = results};
  if (never) return {.yields = results};
  const auto split = results.begin() + 1 + static_cast<ptrdiff_t>(values.size());
  return {.jumps = results[0], .values = {results.begin() + 1, split}, .yields = {split, results.end()}};
}

void IterationPaths::yield(const Branch& branch, bool flagged, const std::vector<Type>& values,
                           const std::vector<Type>& yields) {
  Block& outside = build_.block();
  const size_t position = build_.position();
  build_.to_end(*branch.block);
  std::vector<Value*> all;
  const Outcome& outcome = branch.outcome;
  if (flagged)
    all.push_back(outcome.jumps ? outcome.jumps
                                : build_.constant(Constant::of(DType::boolean, outcome.always ? 1 : 0)));
  const auto add = [&](const std::vector<Value*>& list, const std::vector<Type>& types) {
    for (size_t i = 0; i < types.size(); ++i)
      all.push_back(list.empty() ? build_.splat(Constant::of(types[i].dtype, 0), types[i].shape) : list[i]);
  };
  add(outcome.values, values);
  add(outcome.yields, yields);
  build_.create(primitive("yield"), std::move(all));
  build_.at(outside, position);
}

}  // namespace tile
