// Defines elementwise operators and their gradients: the kernels, and the operators that launch them.
#include "expr/elementwise.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "dsl/tracer.h"
#include "expr/arrays.h"
#include "expr/expression_gradient.h"
#include "prims/derivatives.h"

namespace tile {
namespace {

using Kind = ExpressionSchema::Kind;

struct Elementwise {
  Elementwise(const std::string& text, Expression of, Location where, ExpressionVersion version)
      : schema(text, 0, std::move(version)),
        expression(std::move(of)),
        forward(schema.name, where),
        backward(schema.name + "_backward", where) {
    if (2 * schema.tensors + schema.results.size() > Rows::most_arrays)
      fail(ErrorKind::unsupported, schema.name, ": has ", schema.tensors, " tensors and ",
           schema.results.size(), " results; a result and its gradient take at most ", Rows::most_arrays,
           ", counting tensors twice");
  }

  const ExpressionSchema schema;
  const Expression expression;
  ExpressionKernel forward, backward;

  // The tiles of the tensors, the expression and its results, in a trace whose arrays are the tensors.
  struct Traced {
    std::vector<Tile> inputs, results;
  };
  Traced trace(Tracer& tracer, const std::vector<Array>& arrays, ElementTile tile, DType compute,
               const ExpressionValues& values) const {
    Traced traced;
    for (const Array& array : arrays) {
      const DType dtype = array.dtype() == DType::boolean ? DType::boolean : compute;
      traced.inputs.push_back(load_element_tile(array, tile).astype(dtype));
    }
    const std::vector<ExpressionArgument> arguments =
        values.arguments(traced.inputs, values.bind(tracer, compute));
    const Block& block = tracer.block();
    const size_t from = block.ops.size();
    traced.results = expression(arguments);
    require_elementwise(schema.name, block, from);
    if (traced.results.size() != schema.results.size())
      fail(ErrorKind::type, schema.name, ": the expression gives ", traced.results.size(),
           " tiles, but the schema has ", schema.results.size(),
           schema.results.size() == 1 ? " result" : " results");
    for (Tile& result : traced.results) result = result.broadcast_to({tile.rows, tile.columns});
    return traced;
  }

  // Returns the dtypes of the results.
  std::vector<at::ScalarType> dtypes(const c10::IValue* values) {
    const at::ScalarType common = schema.common_dtype(values);
    const ExpressionValues passed(schema, values);
    return known_.get(passed.dtype_key(common), [&] {
      const DType compute = computed_in(to_dtype(common));
      std::vector<at::ScalarType> found;
      forward.trace_call([&](Tracer& tracer) {
        std::vector<Array> arrays;
        for (const at::Tensor& tensor : schema.tensors_of(values)) {
          ArrayArgument array;
          array.dtype = tensor.scalar_type() == at::kBool ? DType::boolean : to_dtype(common);
          array.rank = 3;
          array.sizes = array.strides = {1, 1, 1};
          arrays.emplace_back(detail::add_array_parameter(tracer, array));
        }
        for (const Tile& result : trace(tracer, arrays, {1, 1}, compute, passed).results)
          found.push_back(result.dtype() == compute ? common : to_scalar_type(result.dtype()));
      });
      return found;
    });
  }

  void allocate(const c10::IValue* values, BoxedValues& results) {
    const c10::SymDimVector shape = schema.common_shape(values);
    std::vector<at::Tensor> made;
    for (const at::ScalarType dtype : dtypes(values)) made.push_back(result(values, shape, dtype));
    for (at::Tensor& each : made) results.emplace_back(std::move(each));  // `values` may move now
  }
  // Allocates a result, with the stride order of the first tensor that has the full shape.
  at::Tensor result(const c10::IValue* values, const c10::SymDimVector& shape, at::ScalarType dtype) const {
    const std::vector<at::Tensor> tensors = schema.tensors_of(values);
    for (const at::Tensor& tensor : tensors)
      if (tensor.sym_sizes().equals(shape))
        return tensor.scalar_type() == dtype ? result_like(tensor)
                                             : at::empty_like(tensor, tensor.options().dtype(dtype));
    return at::empty_symint(shape, tensors.front().options().dtype(dtype));
  }

  void run(const c10::IValue* values) {
    const size_t arguments = schema.arguments.size(), results = schema.results.size();
    const at::Tensor& first = values[arguments].toTensor();
    ElementArrays arrays;
    for (size_t k = 0; k < results; ++k)
      arrays.push_back(at::to_array_argument(values[arguments + k].toTensor()));
    for (const at::Tensor& tensor : schema.tensors_of(values))
      arrays.push_back(broadcast_array(tensor, first.sizes()));
    const DType compute = computed_in(to_dtype(schema.common_dtype(values)));
    const ExpressionValues passed(schema, values);
    const auto body = [&](Tracer& tracer, const std::vector<Array>& all, ElementTile tile) {
      const std::vector<Array> inputs(all.begin() + static_cast<std::ptrdiff_t>(results), all.end());
      const Traced traced = trace(tracer, inputs, tile, compute, passed);
      for (size_t k = 0; k < results; ++k) store_element_tile(all[k], tile, traced.results[k]);
    };
    launch(forward, compute, passed, 0, body, arrays);
  }

  // values: the incoming gradients, the arguments, the mask, then the gradients.
  void run_backward(const c10::IValue* values) {
    const c10::IValue* given = values + schema.results.size();
    const std::vector<int64_t> shape = schema.concrete_shape(given);
    const DType compute = computed_in(to_dtype(schema.common_dtype(given)));
    const ElementGradients gradients(schema.tensors_of(given), given + schema.arguments.size() + 1, values,
                                     schema.results.size(), shape, compute);
    if (gradients.wanted().empty()) return;
    ElementArrays arrays = gradients.arrays();
    for (const size_t k : gradients.incoming())
      arrays.push_back(broadcast_array(values[k].toTensor(), shape));
    for (const at::Tensor& tensor : gradients.tensors()) arrays.push_back(broadcast_array(tensor, shape));
    const ExpressionValues passed(schema, given);
    const auto body = [&](Tracer& tracer, const std::vector<Array>& all, ElementTile tile) {
      trace_backward(tracer, all, tile, compute, passed, gradients);
    };
    launch(backward, compute, passed, gradients.key(), body, arrays);
    gradients.sum_up();
  }

 private:
  void trace_backward(Tracer& tracer, const std::vector<Array>& all, ElementTile tile, DType compute,
                      const ExpressionValues& passed, const ElementGradients& gradients) const {
    auto next = all.begin() + static_cast<std::ptrdiff_t>(gradients.wanted().size());
    const auto inputs = next + static_cast<std::ptrdiff_t>(gradients.incoming().size());
    const Traced traced = trace(tracer, {inputs, all.end()}, tile, compute, passed);
    std::vector<Tile> results, seeds, of;
    for (const size_t k : gradients.incoming()) {
      const Tile& result = traced.results[k];
      const Array& gradient = *next++;
      if (!is_floating(result.dtype())) continue;
      results.push_back(result);
      seeds.push_back(load_element_tile(gradient, tile).astype(result.dtype()));
    }
    for (const size_t k : gradients.wanted()) of.push_back(traced.inputs[k]);
    gradients.store(all, tile, derivatives(results, seeds, of));
  }

  static void launch(ExpressionKernel& kernel, DType compute, const ExpressionValues& values, uint64_t which,
                     const std::function<void(Tracer&, const std::vector<Array>&, ElementTile)>& body,
                     const ElementArrays& arrays) {
    const auto key = [&](LaunchKey& key) {
      key.add(static_cast<uint64_t>(compute));
      key.add(which);
      values.key(key);
    };
    launch_elements({kernel, key, [&](std::vector<ArgumentRef>& passed) { values.pass(passed); }, body},
                    arrays);
  }

  KnownByCall<std::vector<at::ScalarType>> known_;
};

// Inserts extents of 1 between the batch and the tensor's own axes, so that all tensors broadcast as the
// samples do.
VmapCall::Results batch_by_broadcasting(const ExpressionSchema& schema, VmapCall& call) {
  int64_t rank = 0;
  for (const auto& argument : schema.arguments)
    if (argument.kind == Kind::tensor)
      rank = std::max(rank, call[argument.name].toTensor().dim() - (call.batched(argument.name) ? 1 : 0));
  for (const auto& argument : schema.arguments) {
    if (argument.kind != Kind::tensor || !call.batched(argument.name)) continue;
    at::Tensor tensor = call[argument.name].toTensor();
    while (tensor.dim() < rank + 1) tensor = tensor.unsqueeze(1);
    call[argument.name] = tensor;
  }
  return call.call();
}

}  // namespace

Operator define_elementwise(const std::string& schema, Expression expression, Location where, bool replace,
                            ExpressionVersion version) {
  Operator forward = replace ? redefine(schema, where) : op(schema, where);
  std::shared_ptr<Elementwise> made;
  forward.step([&] {
    made = std::make_shared<Elementwise>(schema, std::move(expression), where, std::move(version));
  });
  if (!made) return forward;
  forward.set_outputs(
      {[made](c10::IValue* values, BoxedValues& results) { made->allocate(values, results); }});
  forward.set_run({[made](c10::IValue* values, BoxedValues&) { made->run(values); }});
  forward.vmap([made](VmapCall& call) { return batch_by_broadcasting(made->schema, call); });
  define_gradient(
      forward, made->schema, {}, [made](c10::IValue* values) { made->run_backward(values); }, where, replace);
  return forward;
}

}  // namespace tile
