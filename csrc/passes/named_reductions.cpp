// A reduction whose region is one associative op of its two arguments becomes the primitive of that name,
// which both targets compute together with the ops around it.
#include <algorithm>
#include <string_view>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tile {
namespace {

struct Named {
  std::string_view op, reduction;
  DTypeSet dtypes;
};
// Sums and products of 16-bit floats keep their region, which rounds at each step; a reduction rounds once.
constexpr DTypeSet whole = dtypes::integers | dtypes::wide_floats;
constexpr Named table[] = {
    {"add", "reduce_sum", whole},
    {"mul", "reduce_prod", whole},
    {"maximum", "reduce_max", dtypes::numbers},
    {"minimum", "reduce_min", dtypes::numbers},
    {"bitwise_or", "reduce_any", dtypes::boolean},
    {"bitwise_and", "reduce_all", dtypes::boolean},
};

// Returns the row for result k: one op of the k-th accumulated and the k-th new argument.
const Named* named(const Op& op, size_t k) {
  const Block& region = op.region();
  const Value* yielded = region.terminator()->operands[k];
  const Op* step = yielded->definition;
  if (!step || step->parent != &region) return nullptr;
  const Value *old = region.arguments[k], *next = region.arguments[op.operands.size() + k];
  const auto takes = [&](size_t i, const Value* value) { return step->operands[i] == value; };
  if (step->operands.size() != 2 || !((takes(0, old) && takes(1, next)) || (takes(0, next) && takes(1, old))))
    return nullptr;
  const auto* row = std::find_if(std::begin(table), std::end(table), [&](const Named& row) {
    return step->is(row.op) && row.dtypes.has(yielded->type.dtype);
  });
  return row == std::end(table) ? nullptr : row;
}

}  // namespace

bool named_reductions(Function& function) {
  Rewriter rewrite(function);
  rewrite.run(function.body(), [&](Op& op) {
    if (!op.is("reduce")) return Keep::yes;
    for (size_t k = 0; k < op.operands.size(); ++k)
      if (!named(op, k)) return Keep::yes;
    const std::vector<int64_t> axes{op.integer("axis")};
    for (size_t k = 0; k < op.operands.size(); ++k)
      rewrite.replace(op.results[k],
                      rewrite.build.emit(named(op, k)->reduction, {op.operands[k]}, {{"axes", axes}}));
    return Keep::no;
  });
  return rewrite.changed;
}

}  // namespace tile
