// argmax and argmin, and reduce and scan with a combine region: along lines of shared memory.
#include "cuda/emitter.h"
#include "cuda/lowering.h"
#include "support/error.h"

namespace tile::cuda {
namespace {

// "Lines<4, 128, 1>" of a shape and an axis.
std::string lines_text(const Shape& shape, int64_t axis) {
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < shape.size(); ++i)
    if (static_cast<int64_t>(i) != axis) (static_cast<int64_t>(i) < axis ? outer : inner) *= shape[i];
  return str("Lines<", outer, ", ", shape[static_cast<size_t>(axis)], ", ", inner, ">");
}

// Operands behind one another in shared memory; returns where each lies.
std::vector<std::string> write_operands(Emitter& emitter, const Op& op, int64_t& bytes) {
  emitter.need("combine.cuh");
  std::vector<std::string> places;
  for (const Value* operand : op.operands) places.push_back(emitter.write_shared(op, operand, bytes));
  return places;
}

// "const T v = read_shared<…>(place, line);" of a value.
void read_result(Emitter& emitter, const Op& op, const Value* value, const std::string& place,
                 const Weights& weights) {
  const Layout& layout = emitter.layout_of(value);
  emitter.line(op, str("const ", emitter.type(value->type, layout), " ", emitter.name(value),
                       " = read_shared<", emitter.layout(layout), ", ", weights_text(weights), ">(", place,
                       ", ", line_number(op), ")", value->type.is_scalar() ? ".x[0]" : "", ";"));
}

void emit_arg(Emitter& emitter, const Op& op) {
  int64_t bytes = 0;
  const std::vector<std::string> from = write_operands(emitter, op, bytes);
  const std::string to = Emitter::shared_place(DType::i32, bytes);
  const Value* result = op.results[0];
  emitter.need_shared(op, bytes + element_count(result->type.shape) * 4);
  emitter.line(op, str("arg_lines<", lines_text(op.type(0).shape, op.integer("axis")), ", ",
                       op.is("argmax") ? "true" : "false", ", ", emitter.plan().threads(), ">(",
                       line_number(op), ", ", from[0], ", ", to, ");"));
  read_result(emitter, op, result, to, row_major(result->type.shape));
}

void emit_combine(Emitter& emitter, const Op& op) {
  const Block& region = op.region();
  const size_t n = op.operands.size();
  if (n > 2) fail(op, ErrorKind::unsupported, "of ", n, " tiles has no body on the GPU; combine at most 2");
  int64_t bytes = 0;
  const std::vector<std::string> places = write_operands(emitter, op, bytes);
  const std::string function = emitter.temporary();
  std::vector<std::string> parameters;
  for (size_t i = 0; i < 2 * n; ++i)
    parameters.push_back(
        str(region.arguments[i]->type.dtype, i < n ? "& " : " ", emitter.name(region.arguments[i])));
  emitter.line(op, str("const auto ", function, " = [&](", join(parameters), ") {"));
  emitter.indent(1);
  emitter.block(region);
  emitter.indent(-1);
  emitter.close(";");
  const bool scan = op.is("scan");
  emitter.line(
      op, str("combine_lines<", lines_text(op.type(0).shape, op.integer("axis")), ", ",
              scan ? "true" : "false", ", ", op.integer_or("reverse", 0) ? "true" : "false", ", ",
              emitter.plan().threads(), ">(", function, ", ", line_number(op), ", ", join(places), ");"));
  for (size_t i = 0; i < n; ++i) {
    Weights weights = row_major(op.type(i).shape);
    if (!scan) weights.erase(weights.begin() + op.integer("axis"));
    read_result(emitter, op, op.results[i], places[i], weights);
  }
}

const AddLowering argmax_{{"argmax", emit_arg}};
const AddLowering argmin_{{"argmin", emit_arg}};
const AddLowering reduce_{{"reduce", emit_combine}};
const AddLowering scan_{{"scan", emit_combine, same_layout}};

}  // namespace
}  // namespace tile::cuda
