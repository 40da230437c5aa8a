// Defines the gradient operator of an expression and the arrays of its launch.
#include "expr/expression_gradient.h"

#include <ATen/ops/empty.h>

#include "dsl/tracer.h"
#include "expr/arrays.h"
#include "expr/reduction.h"

namespace tile {

void define_gradient(Operator& forward, const ExpressionSchema& schema,
                     const std::vector<std::string>& between, std::function<void(c10::IValue* values)> run,
                     Location where, bool replace) {
  const std::string name = schema.name + "_backward";
  std::vector<std::string> given, made;
  for (const std::string& result : schema.results)
    given.push_back((schema.results.size() == 1 ? "Tensor grad_" : "Tensor? grad_") + result);
  for (const auto& argument : schema.arguments)
    if (argument.kind == ExpressionSchema::Kind::tensor) made.push_back("Tensor grad_" + argument.name);
  given.push_back(schema.arguments_text);
  given.insert(given.end(), between.begin(), between.end());
  given.push_back(str("bool[", schema.tensors, "] output_mask"));
  const std::string text = str(name, "(", join(given), ") -> (", join(made), ")");
  Operator backward = replace ? redefine(text, where) : op(text, where);
  const size_t first = schema.results.size(), mask = first + schema.arguments.size() + between.size();
  backward.set_outputs({[schema, first, mask](c10::IValue* values, BoxedValues& results) {
    const c10::List<bool> wanted = values[mask].toBoolList();
    size_t k = 0;
    for (const at::Tensor& tensor : schema.tensors_of(values + first))
      results.emplace_back(wanted[k++] && at::isFloatingType(tensor.scalar_type()) ? result_like(tensor)
                                                                                   : at::Tensor());
  }});
  backward.set_run({[run = std::move(run)](c10::IValue* values, BoxedValues&) { run(values); }});
  backward.grad_by_compiler({}, /*saves=*/false);
  forward.grad(name);
}

void launch_elements(const ElementLaunch& launch, const ElementArrays& arrays) {
  const size_t count = arrays.size();
  each_element_tile(arrays, [&](const Rows& views, const Grid& grid, ElementTile tile) {
    LaunchKey key;
    std::vector<ArgumentRef> passed;
    passed.reserve(count + 8);
    for (size_t k = 0; k < count; ++k) {
      detail::key_of_array(key, views.view(k));
      passed.emplace_back(views.view(k));
    }
    key.add(static_cast<uint64_t>(tile.rows) << 32 | static_cast<uint64_t>(tile.columns));
    launch.key(key);
    launch.pass(passed);
    launch.kernel.launch_call(grid, key, passed, [&](Tracer& tracer) {
      std::vector<Array> all;
      for (size_t k = 0; k < count; ++k) all.emplace_back(detail::add_array_parameter(tracer, views.view(k)));
      launch.body(tracer, all, tile);
    });
  });
}

ElementGradients::ElementGradients(std::vector<at::Tensor> tensors, const c10::IValue* gradients,
                                   const c10::IValue* arriving, size_t results,
                                   const std::vector<int64_t>& shape, DType compute)
    : tensors_(std::move(tensors)), compute_(compute) {
  for (size_t k = 0; k < tensors_.size(); ++k) {
    if (is_missing(gradients[k])) continue;
    const at::Tensor& gradient = gradients_.emplace_back(gradients[k].toTensor());
    wanted_.push_back(k);
    whole_.push_back(tensors_[k].sizes().equals(shape)
                         ? gradient
                         : at::empty(shape, tensors_[k].options().dtype(to_scalar_type(compute))));
  }
  for (size_t k = 0; k < results; ++k)
    if (!is_missing(arriving[k])) incoming_.push_back(k);
}
ElementArrays ElementGradients::arrays() const {
  ElementArrays arrays;
  for (const at::Tensor& each : whole_) arrays.push_back(at::to_array_argument(each));
  return arrays;
}
uint64_t ElementGradients::key() const {
  uint64_t which = 0;
  for (const size_t k : wanted_) which |= uint64_t{1} << k;
  for (const size_t k : incoming_) which |= uint64_t{1} << (32 + k);
  return which;
}
void ElementGradients::store(const std::vector<Array>& arrays, ElementTile tile,
                             const std::vector<std::optional<Tile>>& derivatives) const {
  for (size_t j = 0; j < wanted_.size(); ++j)
    store_element_tile(arrays[j], tile,
                       derivatives[j] ? *derivatives[j] : full({tile.rows, tile.columns}, 0, compute_));
}
void ElementGradients::sum_up() const {
  for (size_t j = 0; j < wanted_.size(); ++j)
    if (!whole_[j].is_same(gradients_[j])) sum_into(whole_[j], gradients_[j]);
}

}  // namespace tile
