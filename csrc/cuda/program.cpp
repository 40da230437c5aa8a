// Compiles a kernel: layouts first, then source.
#include "cuda/program.h"

#include <algorithm>

#include "cuda/async/block_queue.h"
#include "cuda/async/early_loads.h"
#include "cuda/async/early_products.h"
#include "cuda/async/epilogue.h"
#include "cuda/async/guard.h"
#include "cuda/async/join_bounds.h"
#include "cuda/async/pairs.h"
#include "cuda/async/persist.h"
#include "cuda/async/roles.h"
#include "cuda/async/skew.h"
#include "cuda/cluster.h"
#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"
#include "cuda/row_indices.h"
#include "cuda/storage_narrowing.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "support/env.h"
#include "support/text.h"

namespace tile::cuda {

bool wgmma_is_on() {
  static const bool on = environment("TILE_WGMMA") != "0";
  return on;
}
Pairs wanted_pairs() {
  static const std::string value = environment("TILE_PAIRS");
  return value == "0" ? Pairs::none : value == "1" ? Pairs::all : Pairs::hinted;
}
int most_cluster_blocks(const Target& target) {
  const int generation = target.arch / 10;
  if (generation < 9) return 1;
  const bool large = generation == 9 || generation == 10;
  return large ? target.cluster_blocks : std::min(target.cluster_blocks, portable_cluster_blocks);
}
int64_t most_tile_bytes(const Target& target) {
  const int blocks = most_cluster_blocks(target);
  // The largest clusters hold twice the share per CTA.
  return blocks > 1 ? int64_t{2} * target.cluster_block_bytes() * blocks : target.block_bytes;
}

std::string text_of(const Configuration& c) {
  std::vector<std::string> words;
  if (!c.wgmma) words.emplace_back("without wgmma");
  const auto scaled = [&](int power, const char* what) {
    if (power)
      words.push_back(str(power > 0 ? 1 << power : 1, power > 0 ? "" : str("/", 1 << -power), "x ", what));
  };
  scaled(c.warps, "warps");
  scaled(c.blocks, "blocks");
  if (c.rematerialize) words.emplace_back("rematerialize");
  if (c.single_cta) words.emplace_back("single CTA");
  if (!c.prefetch) words.emplace_back("no prefetch");
  if (c.panels_in_turn) words.emplace_back("panels in turn");
  if (!c.skew) words.emplace_back("no skew");
  if (!c.hold) words.emplace_back("nothing held");
  if (!c.draw) words.emplace_back("no queue");
  return words.empty() ? "usual" : join(words);
}

namespace {

// Returns the author's hint for this arch, or else the one for all arches.
std::optional<int> hint(const Function& given, std::string_view name, int arch) {
  for (const std::string& key : {str("hint.", name, ".sm_", arch), str("hint.", name)})
    if (const auto* found = given.attributes().find(key)) return static_cast<int>(std::get<int64_t>(*found));
  return std::nullopt;
}

// Returns true if a CTA may leave the kernel early. It would not say that it draws no more blocks, and the
// next launch would find the counter as it is then.
bool asserts(const Function& function) {
  bool found = false;
  walk(function.body(), [&](const Op& op) { found = found || op.is("assert"); });
  return found;
}

// Returns the first op of the groups' region that does not run within a group. In front of the roles all
// threads do the same.
const Op* not_grouped(const Function& function) {
  const Op* found = nullptr;
  std::optional<UseCounts> uses;  // few kernels need them
  walk(function.body(), [&](const Op& op) {
    if (op.parent == &function.body()) return;
    const LoweringRule* rule = find_lowering(op.name());
    if (rule && rule->within_group) {
      if (!uses) uses = count_uses(function.body());
      if (!rule->within_group(op, *uses)) rule = nullptr;
    }
    const bool tiles = op.traits().acts() || op.traits().reads || !op.regions.empty() ||
                       (!op.results.empty() && is_tile(op.results[0]));
    if (!found && tiles && !op.is("constant") && !(rule && rule->grouped)) found = &op;
  });
  return found;
}

}  // namespace

Program::Program(const Function& given, const Target& target, const Configuration& configuration) {
  if (make_async(given, target, configuration)) return;
  Cluster cluster = cluster_of(given, target, configuration);
  // If an element would have to move to another CTA, halve the cluster until one CTA is left.
  while (!make(given, target, configuration, cluster)) cluster.blocks /= 2, cluster.tile_bytes *= 2;
}

bool Program::make_async(const Function& given, const Target& target, const Configuration& wanted) {
  if (!wanted.wgmma) return false;
  if (!multiplies_by_groups(target)) {
    why = target.arch / 10 == 9 ? str("TILE_WGMMA=0 switches wgmma off")
                                : str("sm_", target.arch, " has no wgmma");
    return false;
  }
  Function function = with_narrow_storage(given, true);
  const bool leaves = leave_instead_of_branch(function);
  join_bounds(function);
  if (wanted.skew) skew_loops(function);
  begin_products_early(function);
  const bool varies = work_varies(function),
             is_drawn = !leaves && varies && wanted.draw && !asserts(function),
             is_persistent = !leaves && (!varies || is_drawn);
  std::optional<int> paired;
  if (is_persistent && !is_drawn && most_cluster_blocks(target) > 1 &&
      (target.pairs == Pairs::all ||
       (target.pairs == Pairs::hinted && hint(given, "num_ctas", target.arch).value_or(1) > 1)))
    paired = cuda::pair_axis(function, KernelArrays(function));
  if (is_persistent) make_persistent(function, paired);
  divide_epilogues(function);
  begin_loads_early(function);
  const KernelArrays arrays(function);
  AsyncPlan async(function, arrays, target, is_persistent, is_drawn, wanted.hold);
  why = async.why_not;
  if (!why.empty()) return false;
  if (is_drawn && async.fills_registers()) {
    Configuration other = wanted;
    other.draw = false;
    return make_async(given, target, other);
  }
  if (paired) share_tiles(async, function, arrays);
  if (paired && async.cluster == 1) {
    Target alone = target;
    alone.pairs = Pairs::none;
    return make_async(given, alone, wanted);
  }
  if (const auto reason = divide_into_roles(function, async)) return why = *reason, false;
  if (is_drawn) draw_blocks(function);
  verify(function, "divide_into_roles");
  const auto decline = [&](const Op* op, std::string_view reason) {
    why = str(op->location, ": ", op->name(), " ", reason);
    return false;
  };
  if (const Op* op = not_grouped(function)) return decline(op, "does not run within a warpgroup");
  Configuration configuration = wanted;
  configuration.prefetch = false, configuration.single_cta = true;
  const KernelArrays divided(function);
  const StagingPlan staging(function, divided, target.arch, target.shared_bytes);
  const LayoutPlan plan(function, divided, staging, {1, 0}, target.max_threads / 32, configuration, &async);
  Target one_axis = target;  // the launch's
  one_axis.long_axis = 0;
  const Emitter emitter(function, divided, staging, plan, one_axis, configuration);
  if (const Op* op = emitter.leaves_group())
    return decline(op, "needs the elements of other threads, which groups cannot exchange yet");
  finish(emitter, plan);
  threads = async.threads();
  persistent = is_persistent;
  draws = is_drawn;
  cluster = async.cluster;
  pair_axis = paired.value_or(-1);
  path = "wgmma";
  return true;
}

void Program::finish(const Emitter& emitter, const LayoutPlan& plan) {
  source = emitter.text();
  entry = emitter.entry();
  threads = plan.threads();
  held = emitter.held();
  cluster = plan.cluster();
  multiplies = plan.multiplies();
  shared_bytes = static_cast<int>(emitter.shared_bytes());
  conversions = emitter.conversions();
  assertions = emitter.assertions();
  tensor_maps = emitter.tensor_maps();
  parameters = emitter.parameters();
}

bool Program::make(const Function& given, const Target& target, const Configuration& wanted,
                   const Cluster& of) {
  Configuration configuration = wanted;
  configuration.rematerialize = wanted.rematerialize || of.blocks > 1 || loop_sums(given).reduces;
  configuration.warps += hint(given, "threads", target.arch).value_or(0);
  configuration.occupancy = hint(given, "occupancy", target.arch).value_or(0);
  Function divided = with_narrow_storage(given, configuration.rematerialize);
  const KernelArrays arrays(divided);
  separate_row_indices(divided, arrays, StagingPlan(divided, arrays, target.arch, target.shared_bytes));
  const Function& function = divided;
  const StagingPlan staging(function, arrays, target.arch, target.shared_bytes);
  if (const auto warps = hint(given, "warps", target.arch)) {
    Configuration usual = configuration;
    usual.warps = 0;
    const LayoutPlan plan(function, arrays, staging, of, target.max_threads / 32, usual);
    if (!plan.multiplies())  // tensor-core kernels use warps in fours
      for (int have = plan.threads() / 32; have != *warps && have > 0 && have <= 32;) {
        configuration.warps += have < *warps ? 1 : -1;
        have = have < *warps ? have * 2 : have / 2;
      }
  }
  const LayoutPlan plan(function, arrays, staging, of, target.max_threads / 32, configuration);
  if (!plan.works_across()) return false;
  const Emitter emitter(function, arrays, staging, plan, target, configuration);
  if (emitter.leaves_block()) return false;
  finish(emitter, plan);
  bool has_products = false;
  walk(function.body(), [&](const Op& op) { has_products |= op.is("mma"); });
  if (has_products)
    path = multiplies ? "mma.sync" : "fma";
  else
    why.clear();
  return true;
}

}  // namespace tile::cuda
