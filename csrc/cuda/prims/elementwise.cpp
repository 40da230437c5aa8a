// Rows of prims/elementwise: the text of each is its expression. where, astype and bitcast beside them.
#include "cuda/emitter.h"
#include "cuda/lowering.h"

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

// "name(a, b)" of operands in the result's layout.
std::string call(Emitter& emitter, const Op& op, const std::string& function) {
  std::vector<std::string> operands;
  for (const Value* operand : op.operands)
    operands.push_back(op.results[0]->type.is_scalar()
                           ? emitter.name(operand)
                           : emitter.in_layout(op, operand, emitter.layout_of(op.results[0])));
  return str(function, "(", join(operands), ")");
}

template <size_t row>
void emit_row(Emitter& emitter, const Op& op) {
  emitter.need_row(rows[row].operands, rows[row].name, rows[row].expression);
  emitter.result(op, call(emitter, op, std::string(rows[row].name)));
}

template <size_t... row>
std::vector<AddLowering> add_rows(std::index_sequence<row...>) {
  return {AddLowering({rows[row].name, emit_row<row>, same_layout})...};
}
const std::vector<AddLowering> rows_ = add_rows(std::make_index_sequence<std::size(rows)>());

void emit_where(Emitter& emitter, const Op& op) { emitter.result(op, call(emitter, op, "where")); }
void emit_cast(Emitter& emitter, const Op& op) {
  emitter.need("cast.cuh");
  emitter.result(op, call(emitter, op, str(op.name(), "<", op.dtype("dtype"), ">")));
}

const AddLowering where_{{"where", emit_where, same_layout}};
const AddLowering astype_{{"astype", emit_cast, same_layout}};
const AddLowering bitcast_{{"bitcast", emit_cast, same_layout}};

}  // namespace
}  // namespace tile::cuda
