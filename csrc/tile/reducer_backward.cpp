// The gradient of sums: the derivative of finish at the totals, then that of map at each element.
#include <ATen/ops/empty.h>

#include "dsl/tracer.h"
#include "prims/derivatives.h"
#include "tile/arrays.h"
#include "tile/reducer.h"

namespace tile {

void Reducer::run_backward(const c10::IValue* values) {
  const size_t results = schema.results.size();
  const c10::IValue* given = values + results;
  const Dtypes types = dtypes(given);
  const size_t accumulators = parts.finish ? saved : 0;
  const c10::IValue* total = given + schema.arguments.size() + own_arguments;
  const c10::IValue* gradients = total + accumulators + 1;
  const std::vector<int64_t> shape = concrete_shape(given);
  const uint32_t reduced = axes(given, static_cast<int64_t>(shape.size()));
  const std::vector<at::Tensor> tensors = tensors_of(given);
  ElementArrays arrays;
  std::vector<at::Tensor> whole;
  std::vector<size_t> wanted, incoming;
  for (size_t k = 0; k < tensors.size(); ++k) {
    if (is_missing(gradients[k])) continue;
    wanted.push_back(k);
    whole.push_back(tensors[k].sizes().equals(shape)
                        ? gradients[k].toTensor()
                        : at::empty(shape, tensors[k].options().dtype(to_scalar_type(types.compute))));
    arrays.push_back(at::to_array_argument(whole.back()));
  }
  if (wanted.empty()) return;
  for (size_t k = 0; k < results; ++k)
    if (!is_missing(values[k])) {
      incoming.push_back(k);
      arrays.push_back(beside(values[k].toTensor(), shape, reduced, keeps(given), true));
    }
  for (size_t k = 0; k < accumulators; ++k)
    arrays.push_back(beside(total[k].toTensor(), shape, reduced, keeps(given), true));
  for (const at::Tensor& tensor : tensors) arrays.push_back(broadcast_array(tensor, shape));
  int64_t number = 1;
  for (size_t i = 0; i < shape.size(); ++i)
    if (reduced >> i & 1) number *= shape[i];
  const ExpressionValues passed(schema, given);
  const ScalarArgument count_argument = scalar_argument(number);
  const size_t count = arrays.size();
  uint64_t which = 0;
  for (const size_t k : wanted) which |= uint64_t{1} << k;
  for (const size_t k : incoming) which |= uint64_t{1} << (32 + k);
  each_element_tile(std::move(arrays), [&](const Rows& views, const Grid& grid, ElementTile tile) {
    LaunchKey key;
    std::vector<ArgumentRef> refs;
    for (size_t k = 0; k < count; ++k) {
      detail::key_of_array(key, views.view(k));
      refs.emplace_back(views.view(k));
    }
    key.add(static_cast<uint64_t>(tile.rows) << 32 | static_cast<uint64_t>(tile.columns));
    key.add(static_cast<uint64_t>(types.compute));
    key.add(which);
    passed.key(key);
    refs.emplace_back(count_argument);
    passed.pass(refs);
    backward.launch_call(grid, key, refs, [&](Tracer& tracer) {
      std::vector<Array> all;
      for (size_t k = 0; k < count; ++k) all.emplace_back(detail::add_array_parameter(tracer, views.view(k)));
      const Tile number_tile(detail::add_scalar_parameter(tracer, DType::i64));
      trace_backward(tracer, all, tile, types, passed, wanted, incoming, accumulators, number_tile);
    });
  });
  for (size_t j = 0; j < wanted.size(); ++j)
    if (const at::Tensor& gradient = gradients[wanted[j]].toTensor(); !whole[j].is_same(gradient))
      sum_into(whole[j], gradient);
}

void Reducer::trace_backward(Tracer& tracer, const std::vector<Array>& all, ElementTile tile,
                             const Dtypes& types, const ExpressionValues& passed,
                             const std::vector<size_t>& wanted, const std::vector<size_t>& incoming,
                             size_t accumulators, const Tile& number) const {
  const std::vector<Tile> numbers = passed.bind(tracer, types.compute);
  size_t next = wanted.size();
  std::vector<Tile> arrived, totals, elements;
  for (size_t k = 0; k < incoming.size(); ++k) arrived.push_back(load_element_tile(all[next++], tile));
  for (size_t k = 0; k < accumulators; ++k) totals.push_back(load_element_tile(all[next++], tile));
  for (; next < all.size(); ++next) {
    const Tile each = load_element_tile(all[next], tile);
    elements.push_back(each.dtype() == DType::boolean ? each : each.astype(types.compute));
  }
  const std::vector<Tile> made = mapped(passed, elements, numbers, types.compute);
  std::vector<Tile> seeds;  // of the totals
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
  for (const size_t k : wanted) of.push_back(elements[k]);
  const auto back = derivatives(made, seeds, of);
  for (size_t j = 0; j < wanted.size(); ++j)
    store_element_tile(all[j], tile, back[j] ? *back[j] : full({tile.rows, tile.columns}, 0, types.compute));
}

}  // namespace tile
