// Reduction operators, defined of their parts.
#include "tile/reduction.h"

#include "tile/arrays.h"
#include "tile/reduce_axes.h"
#include "tile/reducer.h"

namespace tile {
namespace {

using Kind = ExpressionSchema::Kind;
constexpr size_t own_arguments = Reducer::own_arguments;

std::string with_axes(const std::string& schema) {
  const size_t end = schema.rfind(')', schema.rfind("->"));
  if (end == std::string::npos) return schema;
  const bool none = schema.find_last_not_of(" (", end - 1) == schema.find('(') - 1;
  return schema.substr(0, end) + (none ? "" : ", ") + "int[1]? dim=None, bool keepdim=False" +
         schema.substr(end);
}

BoxedFunction boxed(std::function<void(c10::IValue*, BoxedValues&)> call) {
  BoxedFunction function;
  function.call = std::move(call);
  return function;
}

std::string backward_schema(const Reducer& reducer) {
  const ExpressionSchema& schema = reducer.schema;
  std::string text = schema.name + "_backward(", results;
  for (const std::string& result : schema.results)
    text += (schema.results.size() == 1 ? "Tensor grad_" : "Tensor? grad_") + result + ", ";
  for (const auto& argument : schema.arguments)
    if (argument.kind == Kind::tensor)
      results += (results.empty() ? "Tensor grad_" : ", Tensor grad_") + argument.name;
  text += schema.arguments_text + ", int[1]? dim, bool keepdim, ";
  for (size_t k = 0; k < (reducer.parts.finish ? reducer.saved : 0); ++k)
    text += str("Tensor total", k, ", ");
  return str(text, "bool[", schema.tensors, "] output_mask) -> (", results, ")");
}

void define_backward(const std::shared_ptr<Reducer>& made, Operator& forward, Location where, bool replace) {
  const std::string text = backward_schema(*made);
  Operator backward = replace ? redefine(text, where) : op(text, where);
  backward.set_outputs(boxed([made](c10::IValue* values, BoxedValues& results) {
    const c10::IValue* given = values + made->schema.results.size();
    const size_t totals = made->parts.finish ? made->saved : 0;
    const c10::List<bool> mask = given[made->schema.arguments.size() + own_arguments + totals].toBoolList();
    size_t k = 0;
    for (const at::Tensor& tensor : made->tensors_of(given)) {
      const bool wanted = mask[k++] && at::isFloatingType(tensor.scalar_type());
      results.emplace_back(wanted ? result_like(tensor) : at::Tensor());
    }
  }));
  backward.set_run(boxed([made](c10::IValue* values, BoxedValues&) { made->run_backward(values); }));
  forward.grad(made->schema.name + "_backward");
}

}  // namespace

Operator define_reduction(const std::string& schema, Reduction parts, Location where, bool replace) {
  const std::string text = with_axes(schema);
  Operator forward = replace ? redefine(text, where) : op(text, where);
  std::shared_ptr<Reducer> made;
  forward.step([&] {
    made = std::make_shared<Reducer>(text, std::move(parts), where);
    if (made->parts.kind == Reduction::Kind::sum && made->parts.finish) made->saved = made->parts.totals;
  });
  if (!made) return forward;
  forward.set_outputs(
      boxed([made](c10::IValue* values, BoxedValues& results) { made->allocate(values, results, false); }));
  if (made->saved) {
    std::string names;
    for (size_t k = 0; k < made->saved; ++k) names += str(k ? ", " : "", "Tensor total", k);
    forward.saves(names);
    forward.set_saved_outputs(
        boxed([made](c10::IValue* values, BoxedValues& results) { made->allocate(values, results, true); }));
  }
  forward.set_run(boxed([made](c10::IValue* values, BoxedValues&) { made->run(values, made->saved); }));
  if (made->parts.kind == Reduction::Kind::sum) define_backward(made, forward, where, replace);
  return forward;
}

void sum_into(const at::Tensor& whole, const at::Tensor& out) {
  static ExpressionKernel kernel("sum_into", Location::current());
  const at::IntArrayRef shape = whole.sizes();
  uint32_t reduced = 0;
  ArrayArgument result = broadcast_array(out, shape);
  for (int i = 0; i < whole.dim(); ++i) {
    const int64_t own = i - (whole.dim() - out.dim());
    if (own >= 0 && out.size(own) == shape[static_cast<size_t>(i)]) continue;
    reduced |= uint32_t{1} << i;
    result.sizes[i] = 1, result.strides[i] = 1;
  }
  ReductionBody body;
  body.kind = Reduction::Kind::sum;
  body.accumulators = {to_dtype(whole.scalar_type())};
  body.begin = [](Tracer&) {};
  body.map = [](const std::vector<Tile>& each) { return each; };
  body.finish = [](const std::vector<Tile>& totals, const Tile&) { return totals; };
  const ReductionLaunch launch{kernel, body, [](LaunchKey&) {}, [](std::vector<ArgumentRef>&) {}};
  reduce_axes(launch, {at::to_array_argument(whole)}, reduced, {result}, {}, whole);
}

}  // namespace tile
