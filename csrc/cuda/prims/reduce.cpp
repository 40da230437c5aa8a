// Reductions over axes, such as sums, and the indices of extremes.
#include <algorithm>
#include <bit>
#include <iterator>

#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

bool finds_index(const Op& op) { return op.has("axis"); }
std::vector<int64_t> axes_of(const Op& op) {
  return finds_index(op) ? std::vector{op.integer("axis")} : op.integers("axes");
}

// The struct that maps each register to its register of the result, and the bits of lanes, warps and cluster
// blocks that are reduced over.
struct Plan {
  std::string name;
  int lanes = 0, warps = 0, blocks = 0;
  // The bits in which threads hold equal sums once their block's are added up.
  int same_lanes = 0, same_warps = 0;
};
Plan plan_of(Emitter& emitter, const Op& op, const Layout& to) {
  const Layout& from = emitter.layout_of(op.operands[0]);
  const std::vector<int64_t> axes = axes_of(op);
  std::vector<int> kept;
  for (int axis = 0; axis < from.rank(); ++axis)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) kept.push_back(axis);
  std::vector<int> into;
  for (int r = 0; r < from.registers(); ++r) {
    int s = 0;
    auto same = [&](int candidate) {
      for (size_t i = 0; i < kept.size(); ++i)
        if (to.of_register(static_cast<int>(i), candidate) != from.of_register(kept[i], r)) return false;
      return true;
    };
    while (!same(s)) ++s;
    into.push_back(s);
  }
  Plan plan;
  for (const Mode& mode : from.modes()) {
    if (std::find(axes.begin(), axes.end(), mode.axis) == axes.end()) continue;
    if (mode.level == Level::lane) plan.lanes |= (mode.extent - 1) * mode.stride;
    if (mode.level == Level::warp) plan.warps |= (mode.extent - 1) * mode.stride;
    if (mode.level == Level::group) emitter.leave_group(op);
    if (mode.level == Level::cta) plan.blocks |= (mode.extent - 1) * mode.stride;
  }
  const int replicas = from.replicas(emitter.plan().threads());
  plan.same_lanes = plan.lanes | (replicas & 31), plan.same_warps = plan.warps | replicas >> 5;
  plan.name = emitter.define_struct(
      "Reduce", str("  TILE static constexpr int into(int r) { ", map_text(into, from), " }\n",
                    "  static constexpr int lanes = ", plan.lanes, ", warps = ", plan.warps,
                    ", all_warps = ", emitter.plan().warps(), ", blocks = ", plan.blocks, ";\n",
                    plan.blocks ? str("  static constexpr int same_lanes = ", plan.same_lanes,
                                      ", same_warps = ", plan.same_warps, ";\n")
                                : "",
                    finds_index(op) ? str("  static constexpr int axis = ", axes[0], ";\n") : ""));
  return plan;
}

// Returns the bytes of an accumulated element: 16-bit floats are summed in float32, and an extreme includes
// its index.
int sum_bytes(const Op& op) {
  const DType dtype = op.type(0).dtype;
  const bool small = dtype == DType::f16 || dtype == DType::bf16;
  if (finds_index(op)) return info(dtype).bytes == 8 ? 16 : 8;
  return small ? 4 : info(dtype).bytes;
}

// Returns how many numbers differ only in these bits.
int64_t count_of(int bits) { return int64_t{1} << std::popcount(static_cast<unsigned>(bits)); }

// Returns the bytes for sums over warps: each warp writes one sum per register and per distinct lane.
int64_t shared_bytes(const Plan& plan, int warps, const Layout& to, const Op& op) {
  if (plan.warps == 0) return 0;
  return count_of(31 & ~plan.lanes) * warps * to.registers() * sum_bytes(op);
}
// Returns the bytes for sums over a cluster: each block receives the distinct sums of all blocks.
int64_t cluster_bytes(const Plan& plan, int warps, const Layout& to, const Op& op) {
  if (plan.blocks == 0) return 0;
  return count_of(plan.blocks) * count_of(31 & ~plan.same_lanes) * count_of((warps - 1) & ~plan.same_warps) *
         to.registers() * sum_bytes(op);
}

// Returns the adjacent independent reductions that start with `op`. All are summed in registers first, so
// that common inputs are not live across a barrier: a cluster's tiles leave no registers for them.
std::vector<const Op*> together(const Op& op) {
  const auto& ops = op.parent->ops;
  const auto at = std::find_if(ops.begin(), ops.end(), [&](const auto& other) { return other.get() == &op; });
  std::vector<const Op*> run;
  for (auto next = at; next != ops.end() && reduces(**next); ++next) {
    const Value* from = (*next)->operands[0];
    if (std::any_of(run.begin(), run.end(), [&](const Op* known) { return known->results[0] == from; }))
      break;
    run.push_back(next->get());
  }
  return run;
}

struct Reduction {
  Layout to;
  Plan plan;
  Reduction(Emitter& emitter, const Op& op)
      : to(emitter.layout_of(op.operands[0]).without(axes_of(op))), plan(plan_of(emitter, op, to)) {}
};

// A primitive, and its name in the device library.
struct Kind {
  std::string_view primitive, name;
};
constexpr Kind kinds[] = {{"reduce_sum", "Sum"}, {"reduce_prod", "Product"}, {"reduce_max", "Max"},
                          {"reduce_min", "Min"}, {"reduce_any", "Any"},      {"reduce_all", "All"},
                          {"argmax", "ArgMax"},  {"argmin", "ArgMin"}};

std::string_view kind_of(const Op& op) {
  return std::find_if(std::begin(kinds), std::end(kinds),
                      [&](const Kind& kind) { return op.is(kind.primitive); })
      ->name;
}

void emit_partials(Emitter& emitter, const std::vector<const Op*>& run) {
  std::vector<RegisterLoops::Sum> sums;
  for (const Op* op : run) {
    const Reduction of(emitter, *op);
    const std::string name = emitter.temporary();
    const std::string_view kind = kind_of(*op);
    const Layout& from = emitter.layout_of(op->operands[0]);
    sums.push_back(
        {.op = op,
         .name = name,
         .type = "auto",
         .start = str("start_of<", kind, ", ", op->type(0).dtype, ", ", emitter.layout(of.to), ">()"),
         .step = str("add_to<", kind, ", ", of.plan.name, ", ", emitter.layout(from), ">(", name, ", r, ")});
    emitter.set_partial(*op, name);
  }
  emitter.rematerialize().add_up(sums);
}

bool uses(const Op& op, const std::vector<const Op*>& run) {
  bool found = false;
  const auto check = [&](const Op& inner) {
    for (const Value* operand : inner.operands)
      found = found || std::any_of(run.begin(), run.end(),
                                   [&](const Op* known) { return known->results[0] == operand; });
  };
  check(op);
  for (const auto& region : op.regions) walk(*region, check);
  return found;
}

// Returns the reductions of the same kind from `op` on, up to the first use of one of their results. They
// share one barrier, after the last.
std::vector<const Op*> run_from(const Emitter& emitter, const Op& op) {
  constexpr size_t most = 8;
  const auto alike = [&](const Op& other) {
    return other.name() == op.name() && other.type(0).dtype == op.type(0).dtype &&
           axes_of(other) == axes_of(op) && other.results[0]->type.shape == op.results[0]->type.shape &&
           emitter.layout_of(other.operands[0]) == emitter.layout_of(op.operands[0]);
  };
  const auto& ops = op.parent->ops;
  auto next = std::find_if(ops.begin(), ops.end(), [&](const auto& other) { return other.get() == &op; });
  std::vector<const Op*> run{&op};
  for (++next; next != ops.end() && run.size() < most && !uses(**next, run); ++next) {
    if (!(*next)->regions.empty()) break;
    if (alike(**next)) run.push_back(next->get());
  }
  return run;
}

void emit_reduce(Emitter& emitter, const Op& op) {
  emitter.need(finds_index(op) ? "extreme.cuh" : "reduce.cuh");
  if (emitter.rematerialize().wanted() && emitter.partial(op).empty()) emit_partials(emitter, together(op));
  const auto [to, plan] = Reduction(emitter, op);
  const int warps = emitter.plan().warps();
  int64_t bytes = shared_bytes(plan, warps, to, op), of_cluster = cluster_bytes(plan, warps, to, op);
  if (emitter.run_of_reductions(op).empty()) {
    const std::vector<const Op*> run = bytes + of_cluster ? run_from(emitter, op) : std::vector{&op};
    for (const Op* member : run) emitter.run_of_reductions(*member) = run;
  }
  const std::vector<const Op*>& all = emitter.run_of_reductions(op);
  const auto count = static_cast<int64_t>(all.size());
  const std::string_view kind = kind_of(op);
  const std::string layout = emitter.layout(to);
  if (count > 1 && emitter.partial(op).empty()) {
    const std::string name = emitter.temporary();
    emitter.line(op, str("const auto ", name, " = partial<", kind, ", ", layout, ", ", plan.name, ">(",
                         emitter.name(op.operands[0]), ");"));
    emitter.set_partial(op, name);
  }
  if (all.back() != &op) return;

  constexpr int64_t most_double = 2048;  // small enough for two buffers
  bytes *= count, of_cluster *= count;
  const bool double_buffered = bytes > 0 && bytes <= most_double;
  std::string memory = double_buffered ? emitter.double_buffer(op, bytes)
                       : bytes         ? "shared_memory()"
                                       : "nullptr";
  if (bytes && !double_buffered) emitter.need_shared(op, bytes);
  if (of_cluster) memory += ", " + emitter.cluster_memory(op, of_cluster);
  const auto reduced = [&](const std::string& layout, const std::string& partial) {
    return str("reduce_partial<", kind, ", ", op.results[0]->type.dtype, ", ", layout, ", ", plan.name, ", ",
               double_buffered ? "true" : "false", ">(", partial, ", ", line_number(op), ", ", memory, ")");
  };
  const auto give = [&](const Op& member, const std::string& expression) {
    if (member.results[0]->type.is_scalar()) return emitter.result(member, expression + ".x[0]");
    emitter.result_in(member, to, expression);
  };
  const std::string partial = emitter.partial(op);
  if (count == 1)
    return give(op, partial.empty()
                        ? str("reduce<", kind, ", ", layout, ", ", plan.name, ", ",
                              double_buffered ? "true" : "false", ">(", emitter.name(op.operands[0]), ", ",
                              line_number(op), ", ", memory, ")")
                        : reduced(layout, partial));
  const std::string joined = emitter.temporary(),
                    partials = join(all, ", ", [&](const Op*member) { return emitter.partial(*member); });
  emitter.line(op,
               str("const auto ", joined, " = ",
                   reduced(str("Several<", layout, ", ", count, ">"), str("several(", partials, ")")), ";"));
  for (size_t i = 0; i < all.size(); ++i) give(*all[i], str("one_of<", i, ", ", layout, ">(", joined, ")"));
}

std::optional<Layout> relate_reduce(const Op& op, const Value* from, const Value*, const Layout& layout) {
  if (from != op.operands[0]) return std::nullopt;
  return layout.without(axes_of(op));
}

const std::vector<AddLoweringRule> lowerings_ = [] {
  std::vector<AddLoweringRule> all;
  for (const Kind& kind : kinds)
    all.emplace_back(LoweringRule{.name = kind.primitive,
                                  .emit = emit_reduce,
                                  .relate = relate_reduce,
                                  .across = true,
                                  .exchanges = true,
                                  .grouped = true,
                                  .reduces = true});
  return all;
}();

}  // namespace
}  // namespace tile::cuda
