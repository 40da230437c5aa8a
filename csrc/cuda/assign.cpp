// Layout assignment: spreads the proposals of memory accesses over the graph of values that may share a
// layout.
#include "cuda/assign.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <numeric>

#include "cuda/access_cost.h"
#include "cuda/array_facts.h"
#include "cuda/conversion.h"
#include "cuda/lowering_rule.h"
#include "cuda/register_loop.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

// Suits float32: two 16-byte accesses if the tile comes from 16-bit memory, and registers for several CTAs
// per multiprocessor.
constexpr int64_t elements_a_thread = 16;
constexpr int most_warps = 16;  // with more, only one CTA fits on a multiprocessor

// Returns true if rows are summed: each warp then has sums of all columns, and fewer warps exchange less.
bool sums_columns(const Function& function) {
  bool found = false;
  walk(function.body(), [&](const Op& op) {
    if (!op.name().starts_with("reduce_") || op.type(0).rank() < 2) return;
    const auto& axes = op.integers("axes");
    found = found || std::find(axes.begin(), axes.end(), 0) != axes.end();
  });
  return found;
}

// Returns enough warps to hold the tiles.
int warps_for(const Function& function, const Cluster& cluster, int64_t elements, int most,
              bool by_live_tiles) {
  int64_t largest = 1;
  walk(function.body(), [&](const Op& op) {
    for (const Value* result : op.results)
      if (is_tile(result)) largest = std::max(largest, bytes_of(result->type));
  });
  if (cluster.blocks > 1) {
    constexpr int64_t bytes_a_warp = 4096;  // half of 64 registers a thread
    const auto wanted =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(cluster.tile_bytes / bytes_a_warp)));
    const int64_t warps = std::clamp<int64_t>(wanted, 1, sums_columns(function) ? 8 : most);
    for (int64_t n = warps; n >= std::max<int64_t>(1, warps / 4); n /= 2)
      if (elements % (n * cluster.blocks * 32 * 8) == 0) return static_cast<int>(n);
    return static_cast<int>(warps);
  }
  constexpr int64_t warp_bytes = 88 * 4 * 32;  // per warp: 88 of 128 registers a thread
  const int64_t wanted =
      std::max<int64_t>(1, by_live_tiles ? (cluster.tile_bytes + warp_bytes - 1) / warp_bytes
                                         : largest / (4 * elements_a_thread * 32));
  const int64_t warps = std::min<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted))),
                                          std::min(most, most_warps));
  // Use fewer warps if every thread's registers are then filled by vectors of 8.
  const auto fills = [&](int64_t n) { return largest % (n * 32 * 8 * 4) == 0; };
  for (int64_t n = warps; n >= 1 && largest <= n * 32 * 4 * 3 * elements_a_thread; n /= 2)
    if (fills(n)) return static_cast<int>(n);
  return static_cast<int>(warps);
}

}  // namespace

struct LayoutPlan::Proposal {
  const Op* op;
  const Value* value;
  int64_t weight;  // bytes moved; a loop counts as several iterations
};

LayoutPlan::LayoutPlan(const Function& function, const KernelArrays& arrays, const StagingPlan& staging,
                       const Cluster& cluster, int max_warps, const Configuration& configuration,
                       const AsyncPlan* async)
    : function_(function),
      staging_(staging),
      cluster_(cluster),
      async_(async),
      mma_(async ? MmaKernel{true, true, AsyncPlan::group_threads / 32} : mma_kernel(function, staging)) {
  std::vector<Proposal> proposals;
  find_runs(arrays);
  propose(function.body(), 1, proposals);
  std::stable_sort(proposals.begin(), proposals.end(),
                   [](const Proposal& a, const Proposal& b) { return a.weight > b.weight; });
  walk(function.body(), [&](const Op& op) {
    for (const Value* result : op.results)
      if (is_tile(result)) largest_ = std::max(largest_, element_count(result->type.shape));
    if (op.is("for") || op.is("loop")) carries_ |= std::any_of(op.results.begin(), op.results.end(), is_tile);
  });
  warps_ = mma_.any ? mma_.warps
                    : warps_for(function, cluster, std::max<int64_t>(largest_, 1), max_warps,
                                configuration.rematerialize || loop_sums(function).large);
  const int by_blocks = fma_warps(function, staging);
  by_blocks_ = by_blocks > 0;
  if (by_blocks_ && !mma_.any) warps_ = std::min({by_blocks, most_warps, max_warps});
  int more = async ? 0 : configuration.warps;
  if (more > 0) warps_ = std::min(warps_ << more, mma_.any ? MmaKernel::most_warps : max_warps);
  if (more < 0 && !mma_.any) warps_ = std::max(warps_ >> -more, 1);
  connect(function.body());
  assign(proposals, arrays, {});
  // These layouts derive from those of the accesses, so that memory access stays efficient. Each round adds
  // an axis.
  for (int round = 0; round < 3; ++round)
    if (const auto ordered = in_order(); !ordered.empty()) assign(proposals, arrays, ordered);
  if (async) return;  // groups cannot move elements to another layout
  for (const Proposal& proposal : proposals) choose_access(proposal, arrays);
}

void LayoutPlan::assign(const std::vector<Proposal>& proposals, const KernelArrays& arrays,
                        const std::vector<std::pair<const Value*, Layout>>& given) {
  layouts_.clear();
  walk(function_.body(), [&](const Op& op) {
    if ((op.is("mma_issue") || op.is("ring_read")) && !layouts_.count(op.results[0]))
      spread(op.results[0], async_->accumulator(op.results[0]->type.shape), &op);
    if (op.is("ring_left")) spread(op.results[0], async_->left_operand(op.results[0]->type.shape), &op);
    if (!op.is("mma") || layouts_.count(op.results[0])) return;
    const Shape& shape = op.type(2).shape;
    // In other products a thread holds adjacent elements of a row, so that the left operand serves several
    // sums.
    const int together = shape.back() % 4 == 0 ? 4 : 1;
    spread(op.results[0],
           staging_.instruction(op) ? accumulator_layout(shape, mma(op))
           : staging_.by_blocks(op) ? fma_layout(shape, fma(op))
                                    : blocked(shape, static_cast<int>(shape.size()) - 1, together, warps_),
           &op);
  });
  for (const auto& [value, layout] : given)
    if (!layouts_.count(value)) spread(value, layout);
  for (const Proposal& proposal : proposals) {
    if (layouts_.count(proposal.value)) continue;
    const ArrayFacts facts = arrays.facts(proposal.op->operands[0]);
    const Type& type = proposal.value->type;
    // Each group accesses its part of a tile that no product decides.
    if (async_ && type.rank() == 2 && async_->in_sums_layout(type.shape)) {
      spread(proposal.value, async_->accumulator(type.shape), proposal.op);
      continue;
    }
    if (const Run found = run(*proposal.op); found.width > 1) {
      spread(proposal.value, dealt(type.shape, found.axis, found.width), proposal.op);
      continue;
    }
    const int axis = facts.unit >= 0 ? facts.unit : type.rank() - 1;
    const int width = vector_width(facts, type.dtype, type.shape, proposal.op->integers("steps"));
    spread(proposal.value, dealt(type.shape, axis, width), proposal.op);
  }
  // Values with no memory access get theirs last. A result precedes its operands, so that it decides their
  // layouts.
  walk(function_.body(), [&](const Op& op) {
    for (const Value* result : op.results)
      if (is_tile(result) && !layouts_.count(result))
        spread(result, dealt(result->type.shape, result->type.rank() - 1, 1));
    for (const auto& region : op.regions)
      for (const Value* argument : region->arguments)
        if (is_tile(argument) && !layouts_.count(argument))
          spread(argument, dealt(argument->type.shape, argument->type.rank() - 1, 1));
  });
}

void LayoutPlan::choose_access(const Proposal& proposal, const KernelArrays& arrays) {
  const ArrayFacts facts = arrays.facts(proposal.op->operands[0]);
  const Type& type = proposal.value->type;
  const Layout& known = of(proposal.value);
  if (run(*proposal.op).width > 1 || facts.unit < 0 || cluster_.blocks > 1) return;
  const int bytes = info(type.dtype).bytes,
            width = vector_width(facts, type.dtype, type.shape, proposal.op->integers("steps"));
  Layout own = dealt(type.shape, facts.unit, width);
  if (own == known) return;
  const auto cost = [&](const Layout& layout) {
    return access_cost(layout, facts.unit, std::gcd(width, layout.vector_along(facts.unit)), bytes, warps_);
  };
  constexpr int64_t room = 32 * 1024;  // shared memory that staged tiles leave for such steps
  const Weights weights = row_major(type.shape);
  const bool loads = !proposal.op->results.empty();
  const MovePlan move =
      plan_move({loads ? own : known, weights}, {loads ? known : own, weights}, bytes, threads(), 1, room);
  if (move.work.shared_bytes > room) return;
  // Require a gain of at least a third: the costs are rough.
  if (3 * (cost(own) + cost_of(move.work, warps_)) <= 2 * cost(known))
    accesses_.emplace(proposal.op, std::move(own));
}

MmaPlan LayoutPlan::mma(const Op& op) const {
  MmaPlan plan = mma_plan(op.type(2).shape, warps_, mma_.multiplies_by_rows(op));
  const bool bytes = info(op.type(0).dtype).bytes == 1;
  plan.paired_rows = bytes && staging_.across_rows(op, 0);
  plan.paired_columns = bytes && staging_.across_rows(op, 1);
  return plan;
}

FmaPlan LayoutPlan::fma(const Op& op) const {
  FmaPlan plan = fma_plan(op.type(2).shape, warps_);
  plan.adjacent_rows = staging_.across_rows(op, 0);
  plan.adjacent_columns = staging_.across_rows(op, 1);
  return plan;
}

std::vector<std::pair<const Value*, Layout>> LayoutPlan::in_order() const {
  constexpr int64_t sector_bytes = 32;
  std::vector<std::pair<const Value*, Layout>> changed, others;
  walk(function_.body(), [&](const Op& op) {
    if (!op.is("scan") && !op.is("reduce")) return;
    const Layout& now = of(op.operands[0]);
    const int64_t sector = sector_bytes / info(op.type(0).dtype).bytes;
    Layout layout = now.in_order(static_cast<int>(op.integer("axis")), sector);
    (layout == now ? others : changed).emplace_back(op.operands[0], std::move(layout));
  });
  if (!changed.empty()) changed.insert(changed.end(), others.begin(), others.end());
  return changed;
}

// Each CTA of a cluster holds its own copy of small tiles, whose elements may therefore move.
Layout LayoutPlan::dealt(const Shape& shape, int axis, int vector) const {
  constexpr int64_t small = 8;
  const bool large = element_count(shape) * small >= largest_;
  return blocked(shape, axis, vector, warps_, large ? cluster_.blocks : 1);
}

int LayoutPlan::blocks() const {
  if (mma_.any) return 1;
  const int64_t tile_registers = cluster_.blocks > 1 ? cluster_.tile_bytes / 4 / threads() : 0;
  int64_t sums = 0;  // a thread's, of a product by FMA
  if (by_blocks_)
    walk(function_.body(), [&](const Op& op) {
      if (op.is("mma")) sums = std::max(sums, element_count(op.type(2).shape) / threads());
    });
  // A thread gets 64, 85, 128 or all of the 255 registers that it may have; tiles may use half of them.
  const int together = sums > 64                                       ? 256
                       : carries_ || by_blocks_ || tile_registers > 44 ? 512
                       : tile_registers > 32                           ? 768
                                                                       : 1024;
  return std::clamp(together / threads(), 1, 16);
}

bool LayoutPlan::works_across() const {
  if (cluster_.blocks == 1) return true;
  bool works = true;
  walk(function_.body(), [&](const Op& op) {
    const LoweringRule* lowering = find_lowering(op.name());
    if (!lowering || lowering->across) return;
    if (lowering->single_cta) works = false;
    for (const auto* values : {&op.operands, &op.results})
      for (const Value* value : *values) works = works && !of(value).across_blocks();
  });
  return works;
}

const Layout& LayoutPlan::of(const Value* value) const {
  static const Layout scalar({}, {});
  return is_tile(value) ? layouts_.at(value) : scalar;
}

const Layout& LayoutPlan::access(const Op& op) const {
  const auto found = accesses_.find(&op);
  return found != accesses_.end() ? found->second : of(accessed(op));
}

void LayoutPlan::find_runs(const KernelArrays& arrays) {
  walk(function_.body(), [&](const Op& op) {
    if (!op.has("run")) return;
    const auto& run = op.integers("run");
    const ArrayFacts facts = arrays.facts(op.operands[0]);
    const int width = std::min(static_cast<int>(run[2]), most_together(facts, op.type(0).dtype));
    if (facts.unit == run[1] && width > 1) runs_.emplace(&op, Run{static_cast<int>(run[0]), width});
  });
}

Run LayoutPlan::run(const Op& op) const {
  const auto found = runs_.find(&op);
  return found == runs_.end() ? Run{} : found->second;
}

const Op* LayoutPlan::origin(const Value* value) const {
  const auto found = origins_.find(value);
  return found == origins_.end() ? nullptr : found->second;
}

void LayoutPlan::propose(const Block& block, int64_t iterations, std::vector<Proposal>& proposals) const {
  for (const auto& op : block.ops) {
    const Value* value = accessed(*op);
    // Rows are copied in this layout, and their indices follow from it.
    const Staged* staged = staging_.of(*op);
    if (value && is_tile(value) && (!staged || staged->by_rows))
      proposals.push_back({op.get(), value, bytes_of(value->type) * iterations});
    if (run(*op).width > 1 && !staged) {
      const Value* moved = op->traits().writes ? op->operands[1] : op->results[0];
      proposals.push_back({op.get(), moved, bytes_of(moved->type) * iterations});
    }
    const bool loops = op->is("for") || op->is("loop");
    for (const auto& region : op->regions) propose(*region, loops ? iterations * 8 : iterations, proposals);
  }
}

void LayoutPlan::link(const Op* op, const Value* a, const Value* b) {
  if (a == b || !is_tile(a) || !is_tile(b)) return;
  edges_[a].push_back({op, b});
  edges_[b].push_back({op, a});
}

void LayoutPlan::connect(const Block& block) {
  for (const auto& op : block.ops) {
    const bool counted = op->is("for");
    for (const auto& region : op->regions) {
      connect(*region);
      if (!counted && !op->is("loop") && !op->is("if")) continue;
      const Op* end = region->terminator();
      for (size_t i = 0; i < op->results.size(); ++i) {
        if (end && i < end->operands.size()) link(nullptr, end->operands[i], op->results[i]);
        if (op->is("if")) continue;
        const Value *argument = region->arguments[i + counted], *result = op->results[i];
        link(nullptr, argument, result);
        if (is_tile(result)) variables_[argument] = result, variables_[result] = argument;
        link(nullptr, op->operands[i + (counted ? 3 : 0)], op->results[i]);
      }
    }
    if (counted || op->is("loop") || op->is("if")) continue;
    std::vector<const Value*> values(op->operands.begin(), op->operands.end());
    values.insert(values.end(), op->results.begin(), op->results.end());
    for (size_t i = 0; i < values.size(); ++i)
      for (size_t j = i + 1; j < values.size(); ++j) link(op.get(), values[i], values[j]);
  }
}

void LayoutPlan::spread(const Value* from, const Layout& layout, const Op* origin) {
  std::deque<const Value*> open;
  const auto give = [&](const Value* value, const Layout& given) {
    layouts_.emplace(value, given);
    if (origin) origins_.emplace(value, origin);
    open.push_back(value);
  };
  // A loop's argument and result are one variable, so no other layout may reach either before the other.
  const auto give_variable = [&](const Value* value, const Layout& given) {
    give(value, given);
    const auto same = variables_.find(value);
    if (same != variables_.end() && !layouts_.count(same->second)) give(same->second, given);
  };
  give_variable(from, layout);
  for (; !open.empty(); open.pop_front()) {
    const Value* value = open.front();
    const auto edges = edges_.find(value);
    if (edges == edges_.end() || (value != from && repeats_scalar(value))) continue;
    const Layout& known = layouts_.at(value);
    for (const Edge& edge : edges->second) {
      if (layouts_.count(edge.other)) continue;
      const std::optional<Layout> same = edge.op ? related(*edge.op, value, edge.other, known) : known;
      if (same) give_variable(edge.other, *same);
    }
  }
}

}  // namespace tile::cuda
