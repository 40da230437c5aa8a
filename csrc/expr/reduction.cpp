// Defines reduction operators from their parts.
#include "expr/reduction.h"

#include "expr/arrays.h"
#include "expr/reduce_axes.h"
#include "expr/reducer.h"

namespace tile {
namespace {

std::string with_axes(const std::string& schema) {
  const size_t end = schema.rfind(')', schema.rfind("->"));
  if (end == std::string::npos) return schema;
  const bool none = schema.find_last_not_of(" (", end - 1) == schema.find('(') - 1;
  return schema.substr(0, end) + (none ? "" : ", ") + "int[1]? dim=None, bool keepdim=False" +
         schema.substr(end);
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
      {[made](c10::IValue* values, BoxedValues& results) { made->allocate(values, results, false); }});
  std::vector<std::string> totals;
  for (size_t k = 0; k < made->saved; ++k) totals.push_back(str("Tensor total", k));
  if (made->saved) {
    forward.saves(join(totals));
    forward.set_saved_outputs(
        {[made](c10::IValue* values, BoxedValues& results) { made->allocate(values, results, true); }});
  }
  forward.set_run({[made](c10::IValue* values, BoxedValues&) { made->run(values, made->saved); }});
  if (made->parts.kind != Reduction::Kind::sum) return forward;
  std::vector<std::string> between{"int[1]? dim", "bool keepdim"};
  between.insert(between.end(), totals.begin(), totals.end());
  define_gradient(
      forward, made->schema, between, [made](c10::IValue* values) { made->run_backward(values); }, where,
      replace);
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
