// Reads the schemas of expressions: which arguments are tiles, their common dtype and shape, and how a launch
// passes them.
#include "expr/expression.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/function_schema.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/DefaultDtype.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include "dsl/tracer.h"

namespace tile {

namespace expression_detail {

void check_count(std::string_view what, size_t given, size_t taken) {
  if (given != taken)
    fail(ErrorKind::type, what, " takes ", taken, taken == 1 ? " argument" : " arguments",
         ", but the schema has ", given);
}

}  // namespace expression_detail

namespace {

std::string type_of(const c10::Argument& argument) { return argument.real_type()->annotation_str(); }

}  // namespace

ExpressionSchema::ExpressionSchema(const std::string& text, size_t skip, ExpressionVersion of)
    : version(std::move(of)) {
  const c10::FunctionSchema schema = torch::jit::parseSchema(text, true);
  name = schema.name();
  for (size_t i = 0; i + skip < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const c10::TypeKind kind = argument.real_type()->kind();
    Argument made{argument.name(), "", Kind::constant};
    using K = c10::TypeKind;
    if (argument.alias_info() && argument.alias_info()->isWrite())
      fail(ErrorKind::type, name, ": '", argument.name(), "' is written; an expression gives new tensors");
    if (kind == K::TensorType)
      made.kind = Kind::tensor, made.type = "Tensor", ++tensors;
    else if (kind == K::FloatType)
      made.kind = Kind::number, made.type = "float";
    else if (kind == K::IntType || kind == K::SymIntType)
      made.kind = Kind::number, made.type = "int";
    else if (kind == K::NumberType)
      made.kind = Kind::number, made.type = "Scalar";
    else if (kind == K::BoolType)
      made.type = "bool";
    else if (kind == K::StringType)
      made.type = "str";
    else
      fail(ErrorKind::type, name, ": '", argument.name(), "' is ", type_of(argument),
           "; an expression takes Tensor, float, int, Scalar, bool and str");
    if (!arguments_text.empty()) arguments_text += ", ";
    arguments_text += made.type + " " + made.name;
    arguments.push_back(std::move(made));
  }
  for (const c10::Argument& result : schema.returns()) {
    if (result.type()->kind() != c10::TypeKind::TensorType)
      fail(ErrorKind::type, name, ": a result is ", type_of(result), "; an expression gives tensors");
    const size_t k = results.size();
    results.push_back(!result.name().empty()         ? result.name()
                      : schema.returns().size() == 1 ? std::string("out")
                                                     : str("out", k));
  }
  if (tensors == 0 || results.empty())
    fail(ErrorKind::type, name, ": an expression takes at least one tensor and returns at least one");
}

at::ScalarType ExpressionSchema::common_dtype(const c10::IValue* values) const {
  at::native::ResultTypeState state, bools;
  bool any = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].kind != Kind::tensor) continue;
    const at::Tensor& tensor = values[i].toTensor();
    const bool is_bool = tensor.scalar_type() == at::kBool;
    any |= !is_bool;
    at::native::ResultTypeState& into = is_bool ? bools : state;
    into = at::native::update_result_type_state(tensor, into);
  }
  if (!any) state = bools;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].kind == Kind::number)
      state = at::native::update_result_type_state(values[i].toScalar(), state);
  return at::native::result_type(state);
}

c10::SymDimVector ExpressionSchema::common_shape(const c10::IValue* values) const {
  c10::SymDimVector shape;
  std::string shapes;
  bool first = true;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].kind != Kind::tensor) continue;
    const at::Tensor& tensor = values[i].toTensor();
    try {
      const auto sizes = tensor.sym_sizes();
      shape =
          first ? c10::SymDimVector(sizes.begin(), sizes.end()) : at::infer_size_symdimvector(shape, sizes);
    } catch (const c10::Error&) {
      fail(ErrorKind::value, "'", arguments[i].name, "' is ", tensor.sym_sizes(),
           ", which does not broadcast with ", c10::SymIntArrayRef(shape),
           "; extents must be equal or 1, counted from the last");
    }
    first = false;
  }
  return shape;
}

std::vector<int64_t> ExpressionSchema::concrete_shape(const c10::IValue* values) const {
  std::vector<int64_t> shape;
  for (const c10::SymInt& extent : common_shape(values))
    shape.push_back(extent.guard_int(__FILE__, __LINE__));
  return shape;
}

std::vector<at::Tensor> ExpressionSchema::tensors_of(const c10::IValue* values) const {
  std::vector<at::Tensor> found;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].kind == Kind::tensor) found.push_back(values[i].toTensor());
  return found;
}

DType computed_in(DType dtype) { return is_floating(dtype) && info(dtype).bytes < 4 ? DType::f32 : dtype; }

ExpressionValues::ExpressionValues(const ExpressionSchema& schema, const c10::IValue* values)
    : schema_(schema), values_(values) {
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    if (schema.arguments[i].kind != ExpressionSchema::Kind::number) continue;
    const c10::IValue& value = values[i];
    numbers_.push_back(value.isDouble() ? scalar_argument(value.toDouble())
                       : value.isBool() ? scalar_argument(static_cast<int64_t>(value.toBool()))
                                        : scalar_argument(value.toInt()));
  }
}
void ExpressionValues::key(LaunchKey& key) const {
  if (schema_.version) key.add(schema_.version());
  for (const ScalarArgument& number : numbers_) key.add(static_cast<uint64_t>(number.dtype));
  for (size_t i = 0; i < schema_.arguments.size(); ++i) {
    if (schema_.arguments[i].kind != ExpressionSchema::Kind::constant) continue;
    if (values_[i].isBool())
      key.add(values_[i].toBool());
    else
      key.add_text(values_[i].toStringRef());
  }
}
LaunchKey ExpressionValues::dtype_key(at::ScalarType common) const {
  LaunchKey made;
  made.add(static_cast<uint64_t>(common));
  for (const at::Tensor& tensor : schema_.tensors_of(values_)) made.add(tensor.scalar_type() == at::kBool);
  key(made);
  return made;
}
void ExpressionValues::pass(std::vector<ArgumentRef>& passed) const {
  for (const ScalarArgument& number : numbers_) passed.emplace_back(number);
}
std::vector<Tile> ExpressionValues::bind(Tracer& tracer, DType compute) const {
  std::vector<Tile> bound;
  for (const ScalarArgument& number : numbers_)
    bound.push_back(Tile(detail::add_scalar_parameter(tracer, number.dtype)).astype(compute));
  return bound;
}
std::vector<ExpressionArgument> ExpressionValues::arguments(const std::vector<Tile>& tensors,
                                                            const std::vector<Tile>& numbers) const {
  std::vector<ExpressionArgument> given;
  size_t tensor = 0, number = 0;
  for (size_t i = 0; i < schema_.arguments.size(); ++i)
    if (const auto kind = schema_.arguments[i].kind; kind == ExpressionSchema::Kind::tensor)
      given.push_back({tensors[tensor++], {}});
    else if (kind == ExpressionSchema::Kind::number)
      given.push_back({numbers[number++], {}});
    else
      given.push_back({std::nullopt, values_[i]});
  return given;
}

void require_elementwise(const std::string& name, const Block& block, size_t from) {
  for (size_t i = from; i < block.ops.size(); ++i) {
    const Op& op = *block.ops[i];
    const bool of_scalar = op.is("broadcast") && op.type(0).shape.empty();
    if (!op.traits().elementwise && !op.is("constant") && !of_scalar)
      fail(op.location, ErrorKind::unsupported, op.name(), ": is not elementwise, as ", name,
           " has to be; write a kernel, and make it an operator with op()");
  }
}

}  // namespace tile
