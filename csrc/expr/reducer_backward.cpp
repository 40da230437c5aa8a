// The gradient of sums: the derivative of finish at the totals, then the derivative of map at each element.
#include "dsl/tracer.h"
#include "expr/arrays.h"
#include "expr/reducer.h"
#include "prims/derivatives.h"

namespace tile {

void Reducer::run_backward(const c10::IValue* values) {
  const size_t results = schema.results.size();
  const c10::IValue* given = values + results;
  const Dtypes types = dtypes(given);
  const size_t accumulators = parts.finish ? saved : 0;
  const c10::IValue* total = given + schema.arguments.size() + own_arguments;
  const std::vector<int64_t> shape = schema.concrete_shape(given);
  const uint32_t reduced = axes(given, static_cast<int64_t>(shape.size()));
  const ElementGradients gradients(schema.tensors_of(given), total + accumulators + 1, values, results, shape,
                                   types.compute);
  if (gradients.wanted().empty()) return;
  ElementArrays arrays = gradients.arrays();
  const auto add = [&](const c10::IValue& value) {
    arrays.push_back(beside(value.toTensor(), shape, reduced, keeps(given), true));
  };
  for (const size_t k : gradients.incoming()) add(values[k]);
  for (size_t k = 0; k < accumulators; ++k) add(total[k]);
  for (const at::Tensor& tensor : gradients.tensors()) arrays.push_back(broadcast_array(tensor, shape));
  int64_t number = 1;
  for (size_t i = 0; i < shape.size(); ++i)
    if (reduced >> i & 1) number *= shape[i];
  const ExpressionValues passed(schema, given);
  const ScalarArgument count = scalar_argument(number);
  const auto key = [&](LaunchKey& key) {
    key.add(static_cast<uint64_t>(types.compute));
    key.add(gradients.key());
    passed.key(key);
  };
  const auto pass = [&](std::vector<ArgumentRef>& refs) {
    refs.emplace_back(count);
    passed.pass(refs);
  };
  const auto body = [&](Tracer& tracer, const std::vector<Array>& all, ElementTile tile) {
    const Tile number_tile(detail::add_scalar_parameter(tracer, DType::i64));
    trace_backward(tracer, all, tile, types, passed, gradients, accumulators, number_tile);
  };
  launch_elements({backward, key, pass, body}, arrays);
  gradients.sum_up();
}

void Reducer::trace_backward(Tracer& tracer, const std::vector<Array>& all, ElementTile tile,
                             const Dtypes& types, const ExpressionValues& passed,
                             const ElementGradients& gradients, size_t accumulators,
                             const Tile& number) const {
  const std::vector<size_t>& incoming = gradients.incoming();
  const std::vector<Tile> numbers = passed.bind(tracer, types.compute);
  size_t next = gradients.wanted().size();
  std::vector<Tile> arrived, totals, elements;
  for (size_t k = 0; k < incoming.size(); ++k) arrived.push_back(load_element_tile(all[next++], tile));
  for (size_t k = 0; k < accumulators; ++k) totals.push_back(load_element_tile(all[next++], tile));
  for (; next < all.size(); ++next) {
    const Tile each = load_element_tile(all[next], tile);
    elements.push_back(each.dtype() == DType::boolean ? each : each.astype(types.compute));
  }
  const std::vector<Tile> made = mapped(passed, elements, numbers, types.compute);
  std::vector<Tile> seeds;  // gradients of the totals
  if (parts.finish) {
    const std::vector<Tile> results = finished(totals, number, types.compute);
    std::vector<Tile> chosen, given;
    for (size_t k = 0; k < incoming.size(); ++k) {
      if (!is_floating(results[incoming[k]].dtype())) continue;
      chosen.push_back(results[incoming[k]]);
      given.push_back(arrived[k].astype(results[incoming[k]].dtype()));
    }
    const auto back = derivatives(chosen, given, totals);
    for (size_t k = 0; k < totals.size(); ++k)
      seeds.push_back(back[k] ? *back[k] : full({tile.rows, tile.columns}, 0, totals[k].dtype()));
  } else {
    for (size_t k = 0; k < made.size(); ++k) {
      const auto found = std::find(incoming.begin(), incoming.end(), k);
      seeds.push_back(found == incoming.end()
                          ? full({tile.rows, tile.columns}, 0, made[k].dtype())
                          : arrived[static_cast<size_t>(found - incoming.begin())].astype(made[k].dtype()));
    }
  }
  std::vector<Tile> of;
  for (const size_t k : gradients.wanted()) of.push_back(elements[k]);
  gradients.store(all, tile, derivatives(made, seeds, of));
}

}  // namespace tile
