// Elementwise primitives: the rows of prims/elementwise, whose source is their expression, and where, astype
// and bitcast.
#include <algorithm>

#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"
#include "cuda/storage_narrowing.h"
#include "ir/rounding.h"

namespace tile::cuda {
namespace {

struct Row {
  std::string_view name;
  int operands;
  std::string_view expression;
};
constexpr Row rows[] = {
#define ROW(operands, name, expression) {#name, operands, #expression},
#define UNARY(name, dtypes, expression, ...) ROW(1, name, expression)
#define UNARY_PREDICATE(name, dtypes, expression, ...) ROW(1, name, expression)
#define BINARY(name, dtypes, expression, ...) ROW(2, name, expression)
#define PREDICATE(name, dtypes, expression, ...) ROW(2, name, expression)
#define TERNARY(name, dtypes, expression, ...) ROW(3, name, expression)
#include "prims/elementwise/all.def"
#undef ROW
};

// Families whose functions have their own file in the device library.
constexpr struct {
  std::string_view row, file;
} files[] = {
#define UNARY(name, ...) {#name, TILE_FILE},
#define UNARY_PREDICATE(name, ...) {#name, TILE_FILE},
#define BINARY(name, ...) {#name, TILE_FILE},
#define PREDICATE(name, ...) {#name, TILE_FILE},
#define TERNARY(name, ...) {#name, TILE_FILE},
#define TILE_FILE "float_modes.cuh"
#include "prims/elementwise/directed.def"
#undef TILE_FILE
#define TILE_FILE "special.cuh"
#include "prims/elementwise/special.def"
#undef TILE_FILE
#include "prims/elementwise/end.def"
};

// Returns "name(a, b)" with the operands in the result's layout.
std::string call(Emitter& emitter, const Op& op, const std::string& function) {
  std::vector<std::string> operands;
  for (const Value* operand : op.operands)
    operands.push_back(op.results[0]->type.is_scalar()
                           ? emitter.name(operand)
                           : emitter.in_layout(op, operand, emitter.layout_of(op.results[0])));
  return str(function, "(", join(operands), ")");
}

// Rows with a faster form in approximate.cuh. Scalars are included: every thread computes them, in every
// iteration of a loop.
constexpr std::string_view approximate_rows[] = {"div", "exp", "exp2", "sigmoid", "silu", "sqrt"};
bool may_be_approximate(const Emitter& emitter, const Op& op) {
  const Type& type = op.results[0]->type;
  return is_floating(type.dtype) && emitter.approximate(op.results[0]) &&
         std::find(std::begin(approximate_rows), std::end(approximate_rows), op.name()) !=
             std::end(approximate_rows);
}

template <size_t row>
std::string row_function(Emitter& emitter, const Op& op, const char* of = "") {
  emitter.need_row(rows[row].operands, rows[row].name, rows[row].expression);
  for (const auto& [name, file] : files)
    if (name == rows[row].name) emitter.need(std::string(file));
  const bool approximate = may_be_approximate(emitter, op);
  if (approximate) emitter.need("approximate.cuh");
  return approximate ? str("approximate", of, "<math::", rows[row].name, "_row>")
                     : std::string(rows[row].name);
}
template <size_t row>
void emit_row(Emitter& emitter, const Op& op) {
  const char* of = op.results[0]->type.is_scalar() ? "_element" : "";
  emitter.result(op, call(emitter, op, row_function<row>(emitter, op, of)));
}
template <size_t row>
std::string row_element(Emitter& emitter, const Op& op, const Elements& operands) {
  return str(row_function<row>(emitter, op, "_element"), "(", operands.joined(), ")");
}

template <size_t... row>
std::vector<AddLoweringRule> add_rows(std::index_sequence<row...>) {
  return {AddLoweringRule({.name = rows[row].name,
                           .emit = emit_row<row>,
                           .relate = same_layout,
                           .across = true,
                           .grouped = true,
                           .element = row_element<row>})...};
}
const std::vector<AddLoweringRule> rows_ = add_rows(std::make_index_sequence<std::size(rows)>());

void emit_where(Emitter& emitter, const Op& op) { emitter.result(op, call(emitter, op, "where")); }
void need_cast(Emitter& emitter, const Op& op) {
  const bool directed = rounding_of_cast(op.name()).value_or(Rounding::nearest) != Rounding::nearest;
  emitter.need(directed ? "directed_cast.cuh" : "cast.cuh");
}
void emit_cast(Emitter& emitter, const Op& op) {
  need_cast(emitter, op);
  emitter.result(op,
                 call(emitter, op, str(op.name(), stays_here(op) ? "_here<" : "<", op.dtype("dtype"), ">")));
}

std::string where_element(Emitter&, const Op&, const Elements& operands) {
  return str("where(", operands.joined(), ")");
}
std::string cast_element(Emitter& emitter, const Op& op, const Elements& operands) {
  need_cast(emitter, op);
  const bool here = stays_here(op) && !operands[0].tile.empty();
  return str(op.name(), here ? "_here<" : "<", op.dtype("dtype"), ">(",
             here ? operands[0].tile + ", r" : operands[0].element, ")");
}

const AddLoweringRule where_{{.name = "where",
                              .emit = emit_where,
                              .relate = same_layout,
                              .across = true,
                              .grouped = true,
                              .element = where_element}};
AddLoweringRule cast(std::string_view name) {
  return AddLoweringRule({.name = name,
                          .emit = emit_cast,
                          .relate = same_layout,
                          .across = true,
                          .grouped = true,
                          .element = cast_element});
}
const AddLoweringRule casts_[] = {cast("astype"),    cast("astype_rz"), cast("astype_rm"),
                                  cast("astype_rp"), cast("astype_ra"), cast("bitcast")};

}  // namespace
}  // namespace tile::cuda
