// Derives kernels once for each set of gradients.
#include "runtime/reverse_kernel.h"

#include <algorithm>

#include "ir/print.h"
#include "ir/walk.h"

namespace tile {
namespace {

constexpr size_t most_choices = 1024;  // of sizes of launches that are remembered

std::vector<int64_t> key_of(const std::vector<Wanted>& wanted, const std::vector<size_t>& results, int axis,
                            const std::vector<Keeping>& keeping = {}) {
  std::vector<int64_t> key{axis, static_cast<int64_t>(wanted.size()), static_cast<int64_t>(keeping.size())};
  for (const Keeping each : keeping) key.push_back(static_cast<int64_t>(each));
  for (const Wanted& each : wanted) {
    key.push_back(static_cast<int64_t>(each.parameter));
    key.push_back(static_cast<int64_t>(each.sharing) * 2 + each.adds);
  }
  key.insert(key.end(), results.begin(), results.end());
  return key;
}

}  // namespace

ReverseKernel::ReverseKernel(Function kernel, std::vector<SavedTile> saved)
    : kernel_(std::move(kernel)), saved_(std::move(saved)), parameters_(differentiable_parameters(kernel_)) {
  const auto& parameters = kernel_.body().arguments;
  uses_.resize(parameters.size());
  walk(kernel_.body(), [&](const Op& op) {
    const Traits& traits = op.traits();
    if (!traits.reads && !traits.writes) return;
    const auto at = std::find(parameters.begin(), parameters.end(), root_array(op.operands[0]));
    Use& use = uses_[static_cast<size_t>(at - parameters.begin())];
    (traits.writes ? traits.reads ? use.added : use.stored : use.read) = true;
  });
  const size_t own = parameters.size() - saved_.size();
  const uint64_t bits = own < 64 ? (uint64_t{1} << own) - 1 : ~uint64_t{0};
  touched_ = touched_parameters(kernel_);
  touched_.read &= bits;
  touched_.written &= bits;
}

ReverseKernel::Made::Made(Derived of)
    : derived(std::move(of)),
      kernel(print(derived.function)),
      has_effects(tile::has_effects(derived.function)) {
  if (derived.remainder) remainder = std::make_unique<TextKernel>(print(*derived.remainder));
  for (const TransposedKernel& each : derived.transposed)
    transposed.push_back({std::make_unique<TextKernel>(print(each.function)),
                          each.wide ? std::make_unique<TextKernel>(print(*each.wide)) : nullptr});
}

const ReverseKernel::Made& ReverseKernel::find(const std::vector<Wanted>& wanted,
                                               const std::vector<size_t>& results, int axis,
                                               const std::vector<Keeping>& keeping) {
  std::unique_ptr<Made>& made = made_[key_of(wanted, results, axis, keeping)];
  if (!made)
    made = std::make_unique<Made>(reverse(kernel_, wanted, results, axis, keeping, positions_of(saved_)));
  return *made;
}

std::shared_ptr<ReverseKernel> ReverseKernel::saving(const std::vector<size_t>& inputs,
                                                     const std::vector<size_t>& results,
                                                     const LaunchSizes& sizes, bool cpu, bool everything) {
  std::vector<int64_t> key = numbers(sizes);
  key.push_back(2 * everything + cpu);
  key.insert(key.end(), inputs.begin(), inputs.end());
  key.push_back(-1);
  key.insert(key.end(), results.begin(), results.end());
  const std::lock_guard lock(mutex_);
  if (chosen_.size() > most_choices) chosen_.clear();
  const auto [known, is_new] = chosen_.try_emplace(std::move(key));
  if (!is_new) return known->second;
  try {
    Saving& saving = saving_.try_emplace(std::pair(inputs, results), kernel_, inputs, results).first->second;
    const SavingKernel* const best = everything ? saving.kernels.all() : saving.kernels.choose(sizes, cpu);
    if (!best) return nullptr;
    std::shared_ptr<ReverseKernel>& made = saving.made[best];
    if (!made) made = std::make_shared<ReverseKernel>(clone(best->function), best->tiles);
    known->second = made;
  } catch (const Error& error) {
    // Errors of other kinds are raised by backward, if it is called.
    if (error.kind() == ErrorKind::runtime) {
      chosen_.erase(known);
      throw;
    }
  }
  return known->second;
}

std::vector<int64_t> ReverseKernel::numbers(const LaunchSizes& sizes) const {
  std::vector<int64_t> numbers(sizes.blocks, sizes.blocks + 3);
  const auto& parameters = kernel_.body().arguments;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Type& type = parameters[i]->type;
    if (!type.is_array() && is_integer(type.dtype)) numbers.push_back(sizes.scalar(i));
    for (int axis = 0; type.is_array() && axis < type.array_rank; ++axis)
      numbers.push_back(sizes.extent(i, axis));
  }
  return numbers;
}

uint64_t ReverseKernel::text_hash() {
  const std::lock_guard lock(mutex_);
  if (!text_hash_) {
    Function kernel = clone(kernel_);
    kernel.attributes() = {};
    text_hash_ = tile::hash(kernel).low;
  }
  return *text_hash_;
}

const TextKernel& ReverseKernel::launched() {
  const std::lock_guard lock(mutex_);
  if (!launched_) launched_ = std::make_unique<TextKernel>(print(kernel_));
  return *launched_;
}

const ReverseKernel::Made& ReverseKernel::derived(const std::vector<Wanted>& wanted,
                                                  const std::vector<size_t>& results, int folded_axis,
                                                  const std::vector<Keeping>& keeping) {
  const bool all =
      std::all_of(keeping.begin(), keeping.end(), [](Keeping way) { return way == Keeping::all; });
  const std::lock_guard lock(mutex_);
  return find(wanted, results, folded_axis, all ? std::vector<Keeping>() : keeping);
}

const ReverseKernel::Made* ReverseKernel::folded(const std::vector<Wanted>& wanted,
                                                 const std::vector<size_t>& results, int axis) {
  const std::lock_guard lock(mutex_);
  const Made& plain = find(wanted, results, -1, {});
  const auto [known, is_new] = made_.try_emplace(key_of(wanted, results, axis));
  if (!is_new) return known->second.get();
  try {
    auto made = std::make_unique<Made>(reverse(kernel_, wanted, results, axis, {}, positions_of(saved_)));
    const auto &ours = made->derived.gradients, &theirs = plain.derived.gradients;
    const bool same =
        std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(),
                   [](const auto& x, const auto& y) { return x.how == y.how && x.axes == y.axes; });
    if (same && made->derived.scratch.size() == plain.derived.scratch.size()) known->second = std::move(made);
  } catch (const Error& error) {
    // An unsupported kernel stays null: the proofs do not hold there.
    if (error.kind() != ErrorKind::unsupported) {
      made_.erase(known);
      throw;
    }
  }
  return known->second.get();
}

}  // namespace tile
