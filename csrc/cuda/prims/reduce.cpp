// Sums and the like over axes.
#include <algorithm>

#include "cuda/emitter.h"
#include "cuda/lowering.h"

namespace tile::cuda {
namespace {

// A struct of the register of the result that each register is added to, and of the bits of lanes and warps
// summed over.
struct Plan {
  std::string name;
  int lanes = 0, warps = 0;
};
Plan plan_of(Emitter& emitter, const Layout& from, const Layout& to, const std::vector<int64_t>& axes) {
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
  for (const Digit& digit : from.digits()) {
    if (std::find(axes.begin(), axes.end(), digit.axis) == axes.end()) continue;
    if (digit.level == Level::lane) plan.lanes |= (digit.extent - 1) * digit.stride;
    if (digit.level == Level::warp) plan.warps |= (digit.extent - 1) * digit.stride;
  }
  plan.name = emitter.define_struct(
      "Reduce", str("  TILE static constexpr int into(int r) { ", map_text(into, from), " }\n",
                    "  static constexpr int lanes = ", plan.lanes, ", warps = ", plan.warps,
                    ", all_warps = ", emitter.plan().warps(), ";\n"));
  return plan;
}

// Over warps sums go through shared memory: of each warp one a register, or one a lane.
int64_t shared_bytes(const Plan& plan, int warps, const Layout& to, DType dtype) {
  if (plan.warps == 0) return 0;
  const bool small = dtype == DType::f16 || dtype == DType::bf16;  // summed in float32
  const bool one = plan.lanes == 31 && plan.warps == warps - 1;
  return int64_t{one ? 1 : 32} * warps * to.registers() * (small ? 4 : info(dtype).bytes);
}

template <const char* kind>
void emit_reduce(Emitter& emitter, const Op& op) {
  emitter.need("reduce.cuh");
  const auto& axes = op.integers("axes");
  const Layout& from = emitter.layout_of(op.operands[0]);
  const Layout to = from.without(axes);
  const Plan plan = plan_of(emitter, from, to, axes);
  constexpr int64_t most_turned = 2048;  // small enough to have twice
  const int64_t bytes = shared_bytes(plan, emitter.plan().warps(), to, op.type(0).dtype);
  const bool turned = bytes > 0 && bytes <= most_turned;
  std::string memory = "nullptr";
  if (turned) {
    memory = emitter.turned_memory(op, bytes);
  } else if (bytes) {
    emitter.need_shared(op, bytes);
    memory = "shared_memory()";
  }
  const std::string expression =
      str("reduce<", kind, ", ", emitter.layout(to), ", ", plan.name, ", ", turned ? "true" : "false", ">(",
          emitter.name(op.operands[0]), ", ", memory, ", ", line_number(op), ")");
  if (op.results[0]->type.is_scalar()) return emitter.result(op, expression + ".x[0]");
  emitter.result_in(op, to, expression);
}

std::optional<Layout> relate_reduce(const Op& op, const Value* from, const Value*, const Layout& layout) {
  if (from != op.operands[0]) return std::nullopt;
  return layout.without(op.integers("axes"));
}

#define REDUCTION(NAME, KIND)                            \
  constexpr char NAME##_kind[] = #KIND;                  \
  const AddLowering NAME##_ {                            \
    { #NAME, emit_reduce < NAME##_kind>, relate_reduce } \
  }
REDUCTION(reduce_sum, Sum);
REDUCTION(reduce_prod, Product);
REDUCTION(reduce_max, Max);
REDUCTION(reduce_min, Min);
REDUCTION(reduce_any, Any);
REDUCTION(reduce_all, All);
#undef REDUCTION

}  // namespace
}  // namespace tile::cuda
