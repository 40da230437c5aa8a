// The kernels of an elementwise operator and of its gradient, and the operators around them.
#include "tile/elementwise.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "dsl/tracer.h"
#include "prims/derivatives.h"
#include "tile/arrays.h"
#include "tile/elements.h"
#include "tile/reduction.h"

namespace tile {
namespace {

struct KeyHash {
  size_t operator()(const LaunchKey& key) const { return key.hash(); }
};

using Kind = ExpressionSchema::Kind;

struct Elementwise {
  Elementwise(const std::string& text, Expression of, Location where)
      : schema(text, 0),
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

  // The tensors' tiles, the expression and what it gives, in a trace whose arrays are the tensors.
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

  // Of the results.
  std::vector<at::ScalarType> dtypes(const c10::IValue* values) {
    const at::ScalarType common = schema.common_dtype(values);
    const ExpressionValues passed(schema, values);
    LaunchKey key;
    key.add(static_cast<uint64_t>(common));
    const std::vector<at::Tensor> tensors = tensors_of(values);
    for (const at::Tensor& tensor : tensors) key.add(tensor.scalar_type() == at::kBool);
    passed.key(key);
    {
      std::lock_guard lock(mutex_);
      if (const auto found = known_.find(key); found != known_.end()) return found->second;
    }
    const DType compute = computed_in(to_dtype(common));
    std::vector<at::ScalarType> found;
    // Unlocked: an expression of Python waits for the interpreter.
    forward.trace_call([&](Tracer& tracer) {
      std::vector<Array> arrays;
      for (const at::Tensor& tensor : tensors) {
        ArrayArgument array;
        array.dtype = tensor.scalar_type() == at::kBool ? DType::boolean : to_dtype(common);
        array.rank = 3;
        array.sizes = array.strides = {1, 1, 1};
        arrays.emplace_back(detail::add_array_parameter(tracer, array));
      }
      for (const Tile& result : trace(tracer, arrays, {1, 1}, compute, passed).results)
        found.push_back(result.dtype() == compute ? common : to_scalar_type(result.dtype()));
    });
    std::lock_guard lock(mutex_);
    known_.emplace(key, found);
    return found;
  }

  std::vector<at::Tensor> tensors_of(const c10::IValue* values) const {
    std::vector<at::Tensor> tensors;
    for (size_t i = 0; i < schema.arguments.size(); ++i)
      if (schema.arguments[i].kind == Kind::tensor) tensors.push_back(values[i].toTensor());
    return tensors;
  }

  void allocate(const c10::IValue* values, BoxedValues& results) {
    const c10::SymDimVector shape = schema.common_shape(values);
    std::vector<at::Tensor> made;
    for (const at::ScalarType dtype : dtypes(values)) made.push_back(result(values, shape, dtype));
    for (at::Tensor& each : made) results.emplace_back(std::move(each));  // `values` may move now
  }
  // In the order of the strides of the first tensor of the whole shape.
  at::Tensor result(const c10::IValue* values, const c10::SymDimVector& shape, at::ScalarType dtype) const {
    const std::vector<at::Tensor> tensors = tensors_of(values);
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
    for (const at::Tensor& tensor : tensors_of(values))
      arrays.push_back(broadcast_array(tensor, first.sizes()));
    const DType compute = computed_in(to_dtype(schema.common_dtype(values)));
    const ExpressionValues passed(schema, values);
    each_element_tile(std::move(arrays), [&](const Rows& views, const Grid& grid, ElementTile tile) {
      const size_t count = results + schema.tensors;
      launch(forward, views, count, grid, tile, compute, passed, 0,
             [&](Tracer& tracer, std::vector<Array> all) {
               const std::vector<Array> inputs(all.begin() + static_cast<std::ptrdiff_t>(results), all.end());
               const Traced traced = trace(tracer, inputs, tile, compute, passed);
               for (size_t k = 0; k < results; ++k) store_element_tile(all[k], tile, traced.results[k]);
             });
    });
  }

  // values: the incoming gradients, the arguments, the mask, the gradients.
  void run_backward(const c10::IValue* values) {
    const size_t results = schema.results.size(), arguments = schema.arguments.size();
    const c10::IValue* given = values + results;
    const std::vector<at::Tensor> tensors = tensors_of(given);
    const c10::SymDimVector symbolic = schema.common_shape(given);
    std::vector<int64_t> shape;
    for (const c10::SymInt& extent : symbolic) shape.push_back(extent.guard_int(__FILE__, __LINE__));
    const DType compute = computed_in(to_dtype(schema.common_dtype(given)));
    std::vector<size_t> wanted, incoming;
    std::vector<at::Tensor> whole;  // where a tensor was broadcast, its gradient before it is summed up
    ElementArrays arrays;
    for (size_t k = 0; k < tensors.size(); ++k) {
      const c10::IValue& gradient = given[arguments + 1 + k];
      if (is_missing(gradient)) continue;
      wanted.push_back(k);
      whole.push_back(tensors[k].sizes().equals(shape)
                          ? gradient.toTensor()
                          : at::empty(shape, tensors[k].options().dtype(to_scalar_type(compute))));
      arrays.push_back(at::to_array_argument(whole.back()));
    }
    if (wanted.empty()) return;
    for (size_t k = 0; k < results; ++k)
      if (!is_missing(values[k])) {
        incoming.push_back(k);
        arrays.push_back(broadcast_array(values[k].toTensor(), shape));
      }
    for (const at::Tensor& tensor : tensors) arrays.push_back(broadcast_array(tensor, shape));
    const ExpressionValues passed(schema, given);
    uint64_t which = 0;
    for (const size_t k : wanted) which |= uint64_t{1} << k;
    for (const size_t k : incoming) which |= uint64_t{1} << (32 + k);
    const size_t count = arrays.size();
    each_element_tile(std::move(arrays), [&](const Rows& views, const Grid& grid, ElementTile tile) {
      launch(backward, views, count, grid, tile, compute, passed, which,
             [&](Tracer& tracer, std::vector<Array> all) {
               trace_backward(tracer, all, tile, compute, passed, wanted, incoming);
             });
    });
    for (size_t j = 0; j < wanted.size(); ++j)
      if (const at::Tensor& gradient = given[arguments + 1 + wanted[j]].toTensor();
          !whole[j].is_same(gradient))
        sum_into(whole[j], gradient);
  }

 private:
  void trace_backward(Tracer& tracer, const std::vector<Array>& all, ElementTile tile, DType compute,
                      const ExpressionValues& passed, const std::vector<size_t>& wanted,
                      const std::vector<size_t>& incoming) const {
    auto next = all.begin() + static_cast<std::ptrdiff_t>(wanted.size());
    const auto inputs = next + static_cast<std::ptrdiff_t>(incoming.size());
    const Traced traced = trace(tracer, {inputs, all.end()}, tile, compute, passed);
    std::vector<Tile> results, seeds, of;
    for (const size_t k : incoming) {
      const Tile& result = traced.results[k];
      const Array& gradient = *next++;
      if (!is_floating(result.dtype())) continue;
      results.push_back(result);
      seeds.push_back(load_element_tile(gradient, tile).astype(result.dtype()));
    }
    for (const size_t k : wanted) of.push_back(traced.inputs[k]);
    const std::vector<std::optional<Tile>> parts = derivatives(results, seeds, of);
    for (size_t j = 0; j < wanted.size(); ++j)
      store_element_tile(all[j], tile, parts[j] ? *parts[j] : full({tile.rows, tile.columns}, 0, compute));
  }

  template <class Body>
  static void launch(ExpressionKernel& kernel, const Rows& views, size_t count, const Grid& grid,
                     ElementTile tile, DType compute, const ExpressionValues& values, uint64_t which,
                     const Body& body) {
    LaunchKey key;
    std::vector<ArgumentRef> passed;
    passed.reserve(count + 8);
    for (size_t k = 0; k < count; ++k) {
      detail::key_of_array(key, views.view(k));
      passed.emplace_back(views.view(k));
    }
    key.add(static_cast<uint64_t>(tile.rows) << 32 | static_cast<uint64_t>(tile.columns));
    key.add(static_cast<uint64_t>(compute));
    key.add(which);
    values.key(key);
    values.pass(passed);
    kernel.launch_call(grid, key, passed, [&](Tracer& tracer) {
      std::vector<Array> arrays;
      for (size_t k = 0; k < count; ++k)
        arrays.emplace_back(detail::add_array_parameter(tracer, views.view(k)));
      body(tracer, std::move(arrays));
    });
  }

  std::mutex mutex_;
  std::unordered_map<LaunchKey, std::vector<at::ScalarType>, KeyHash> known_;
};

// Extents of 1 between the batch and the tensor's own, so that all broadcast as the samples do.
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

std::string backward_schema(const ExpressionSchema& schema) {
  std::string text = schema.name + "_backward(", results;
  for (const std::string& result : schema.results)
    text += (schema.results.size() == 1 ? "Tensor grad_" : "Tensor? grad_") + result + ", ";
  for (const auto& argument : schema.arguments)
    if (argument.kind == Kind::tensor)
      results += (results.empty() ? "Tensor grad_" : ", Tensor grad_") + argument.name;
  return str(text, schema.arguments_text, ", bool[", schema.tensors, "] output_mask) -> (", results, ")");
}

BoxedFunction boxed(std::function<void(c10::IValue*, BoxedValues&)> call) {
  BoxedFunction function;
  function.call = std::move(call);
  return function;
}

}  // namespace

Operator define_elementwise(const std::string& schema, Expression expression, Location where, bool replace) {
  Operator forward = replace ? redefine(schema, where) : op(schema, where);
  std::shared_ptr<Elementwise> made;
  forward.step([&] { made = std::make_shared<Elementwise>(schema, std::move(expression), where); });
  if (!made) return forward;
  forward.set_outputs(
      boxed([made](c10::IValue* values, BoxedValues& results) { made->allocate(values, results); }));
  forward.set_run(boxed([made](c10::IValue* values, BoxedValues&) { made->run(values); }));
  forward.vmap([made](VmapCall& call) { return batch_by_broadcasting(made->schema, call); });

  const std::string text = backward_schema(made->schema);
  Operator backward = replace ? redefine(text, where) : op(text, where);
  backward.set_outputs(boxed([made](c10::IValue* values, BoxedValues& results) {
    const c10::IValue* given = values + made->schema.results.size();
    const c10::List<bool> mask = given[made->schema.arguments.size()].toBoolList();
    size_t k = 0;
    for (const at::Tensor& tensor : made->tensors_of(given)) {
      const bool wanted = mask[k++] && at::isFloatingType(tensor.scalar_type());
      results.emplace_back(wanted ? result_like(tensor) : at::Tensor());
    }
  }));
  backward.set_run(boxed([made](c10::IValue* values, BoxedValues&) { made->run_backward(values); }));
  forward.grad(made->schema.name + "_backward");
  return forward;
}

}  // namespace tile
