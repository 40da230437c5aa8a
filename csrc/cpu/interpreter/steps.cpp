// Selects the table functions of an elementwise op.
#include "cpu/interpreter/steps.h"

#include "ir/rounding.h"

namespace tile::cpu {
namespace {

// Rounding functions have no variants for repeats: their operand is the previous step's result.
const ChunkFunction* rounding(DType dtype) {
  const MoveRow& row = move_row(dtype);
  return row.round ? &row.round : nullptr;
}

std::string_view rounding_name(DType dtype) {
  return dtype == DType::bf16 ? "round.bf16" : dtype == DType::f16 ? "round.f16" : "";
}

const ElementwiseRow& row_of(const Op& op, std::string_view name, Lane lane) {
  const ElementwiseRow* row = find_elementwise(name, lane);
  if (!row) fail(op, ErrorKind::unsupported, "has no CPU implementation for ", op.type(0).dtype);
  return *row;
}

}  // namespace

std::vector<StepFunction> step_functions(const Op& op) {
  const DType from = op.type(op.is("where") ? 1 : 0).dtype, to = op.results[0]->type.dtype;
  const Lane source = lane_of(from), target = lane_of(to);
  const std::optional<Rounding> cast = rounding_of_cast(op.name());
  std::vector<StepFunction> steps;
  // Directed rounding to the dtype.
  const auto narrow = [&](DType dtype) {
    if (cast == Rounding::nearest) return;
    const Lane lane = dtype == DType::f32 ? Lane::f64 : Lane::f32;
    // If the value is narrowed again, truncation keeps the information on which side of a midpoint it is.
    const bool truncates = cast == Rounding::away && dtype != to;
    const ElementwiseRow& row = row_of(op, str(dtype, info(truncates ? Rounding::zero : *cast).suffix), lane);
    steps.push_back({row.name, row.variants, row.lane});
  };
  if (!cast) {
    const ElementwiseRow& row = row_of(op, op.name(), source);
    steps.push_back({row.name, row.variants, target});
  } else if (to == DType::boolean && from != DType::boolean) {
    steps.push_back({"to_bool", row_of(op, "to_bool", source).variants, target});
  } else if (source != target) {
    if (source == Lane::f64) narrow(DType::f32);
    steps.push_back({(from == DType::boolean || from == DType::i32) && target == Lane::f32 ? "number" : "",
                     cast_row(source, target).variants, target});
  }
  if (cast && target == Lane::f32 && to != DType::f32) narrow(to);
  if (ends_in_rounding(op)) steps.push_back({rounding_name(to), rounding(to), target});
  return steps;
}

bool ends_in_rounding(const Op& op) {
  if (op.is("where")) return false;  // its operands are already rounded
  const DType to = op.results[0]->type.dtype;
  const std::optional<Rounding> cast = rounding_of_cast(op.name());
  return rounding(to) && (!cast || (cast == Rounding::nearest && op.type(0).dtype != to));
}

}  // namespace tile::cpu
