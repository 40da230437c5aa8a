// Autograd. Reverse mode: the node of an operator, its replay under compiled autograd, and the errors for
// operators without a gradient. Forward mode: the call of the operator that computes tangents.
#include <algorithm>

#include "torch/context.h"
#include "torch/record.h"

namespace tile {

namespace ag = torch::autograd;
using c10::IValue;

namespace {

// Most operators have at most this many arguments and results; their calls then allocate no list.
constexpr unsigned few = 12;
using Numbers = c10::SmallVector<int, few>;

// The tensors of several values as a flat list; `begin[i]` is the index of the first tensor of value i.
struct Flat {
  c10::SmallVector<const at::Tensor*, few> tensors;  // in the values
  Numbers& begin;
  c10::SmallVector<bool, few>& is_list;
  Flat(Numbers& begins, c10::SmallVector<bool, few>& lists) : begin(begins), is_list(lists) {
    begin.push_back(0);
  }
  void add(const IValue& value) {
    for_each_tensor(value, [&](const at::Tensor& tensor) { tensors.push_back(&tensor); });
    begin.push_back(static_cast<int>(tensors.size()));
    is_list.push_back(value.isList());
  }
};

IValue optional(const at::Tensor& tensor) { return tensor.defined() ? IValue(tensor) : IValue(); }

// The part of a node that does not differ between its calls. It is what compiled autograd needs to replay the
// node.
struct NodeLayout {
  std::shared_ptr<OperatorRecord> op;
  std::shared_ptr<const GradientPlan> plan;
  size_t hidden = 0;                     // the number of last results that only the node has
  Numbers argument_begin, result_begin;  // indices of the edges and of the incoming gradients
  c10::SmallVector<bool, few> argument_is_list, result_is_list;
};

// Computes the whole backward pass without node state. `stack` holds the arguments of the gradient operator;
// the gradients and the mask are empty.
ag::variable_list gradient(const NodeLayout& layout, const std::vector<bool>& need,
                           const ag::variable_list& incoming, BoxedValues stack) {
  const OperatorRecord& op = *layout.op;
  const GradientPlan& plan = *layout.plan;
  ag::variable_list result(need.size());
  bool any = false;
  for (const at::Tensor& tensor : incoming) any |= tensor.defined();
  if (!any) return result;

  if (plan.made != definitions()) {
    const auto now = gradient_plan(*layout.op);
    if (now->inputs != plan.inputs || now->slots != plan.slots)
      raise(op.body->name, ErrorKind::runtime,
            "its gradient operator " + plan.name +
                " was redefined with another schema between forward and backward; run forward again");
  }
  std::vector<bool> have(op.arguments), named(op.results);
  for (const auto& [role, k] : plan.inputs)
    if (role == GradientPlan::Role::gradient) named[k] = true;
  for (size_t k = 0; k < op.results; ++k)
    for (int i = layout.result_begin[k]; i < layout.result_begin[k + 1]; ++i)
      if (incoming[i].defined() && !named[k])
        raise(op.body->name, ErrorKind::unsupported,
              "no gradient flows back through result '" + result_name(op.schema, k) + "'; detach it");
  for (const auto& slots : plan.slots)
    for (const size_t slot : slots) have[slot] = true;
  const auto needed = [&](size_t i) {
    bool some = false;
    for (int e = layout.argument_begin[i]; e < layout.argument_begin[i + 1]; ++e) some |= need[e];
    return some;
  };
  for (size_t i = 0; i < op.arguments; ++i)
    if (!have[i] && needed(i))
      raise(op.body->name, ErrorKind::unsupported,
            "has no gradient for '" + op.schema.arguments()[i].name() + "', which requires grad; detach it");

  // Looked up in every call, because torch's library may have removed or redefined the gradient operator.
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(plan.name.c_str(), "");
  for (size_t a = 0; a < plan.inputs.size(); ++a) {
    const auto [role, k] = plan.inputs[a];
    if (role == GradientPlan::Role::gradient) {
      const int begin = layout.result_begin[k], end = layout.result_begin[k + 1];
      if (layout.result_is_list[k]) {
        std::vector<std::optional<at::Tensor>> list;
        for (int i = begin; i < end; ++i)
          list.push_back(incoming[i].defined() ? std::optional(incoming[i]) : std::nullopt);
        stack[a] = std::move(list);
      } else {
        stack[a] = optional(incoming[begin]);
      }
    } else if (role == GradientPlan::Role::mask) {
      c10::List<bool> mask;
      for (const auto& slots : plan.slots) mask.push_back(std::any_of(slots.begin(), slots.end(), needed));
      stack[a] = std::move(mask);
    }
  }
  handle.callBoxed(stack);
  for (size_t k = 0; k < plan.slots.size(); ++k)
    for (const size_t slot : plan.slots[k]) {
      int e = layout.argument_begin[slot];
      for_each_tensor(stack[k], [&](const at::Tensor& tensor) {
        if (e < layout.argument_begin[slot + 1] && need[e]) result[e] = tensor;
        ++e;
      });
    }
  return result;
}

// Returns true for a tensor that is no wrapper of a transform and of no class with a dispatch of its own.
bool is_plain(const at::Tensor& tensor) {
  using Key = c10::DispatchKey;
  constexpr c10::DispatchKeySet wrappers =
      c10::python_ks | c10::DispatchKeySet(Key::FuncTorchGradWrapper) |
      c10::DispatchKeySet(Key::FuncTorchBatched) | c10::DispatchKeySet(Key::FuncTorchBatchedDecomposition) |
      c10::DispatchKeySet(Key::Batched) | c10::DispatchKeySet(Key::Functionalize);
  return tensor.defined() && !tensor.key_set().has_any(wrappers) && !tensor.is_meta();
}

// Returns false if autograd does not track the tensor.
bool in_graph(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->autograd_meta();
}

// Calls _fw_grad only if there may be one, because it is slow. A view has the one of its base.
bool has_forward_gradient(const at::Tensor& tensor) {
  const auto& meta = static_cast<const ag::AutogradMeta&>(*tensor.unsafeGetTensorImpl()->autograd_meta());
  return (meta.fw_grad_ || meta.is_view_) && tensor._fw_grad(0).defined();
}

at::Tensor forward_gradient(const at::Tensor& tensor) {
  if (!tensor.defined() || !in_graph(tensor) || !has_forward_gradient(tensor)) return {};
  const at::Tensor gradient = tensor._fw_grad(0);
  return gradient._is_zerotensor() ? at::Tensor() : gradient;
}

struct OperatorNode final : ag::Node {
  OperatorNode() {}  // without it, all members would be zeroed first
  NodeLayout layout;
  // For each argument, flat. An entry is empty if the gradient does not name the value; the list is empty if
  // it names none.
  std::vector<IValue> plain;  // values that are not tensors
  std::vector<ag::SavedVariable> arguments, results;
  bool released = false;

  std::string name() const override { return layout.op->body->name + "Backward"; }
  void release_variables() override {
    std::lock_guard lock(mutex_);
    for (auto& saved : arguments) saved.reset_data();
    for (auto& saved : results) saved.reset_data();
    released = true;
  }
  IValue unpack(size_t k, const Numbers& begin, const c10::SmallVector<bool, few>& is_list,
                std::vector<ag::SavedVariable>& saved, bool is_result, const c10::Argument& declared) {
    const auto tensor = [&](int i) { return is_result ? saved[i].unpack(getptr()) : saved[i].unpack(); };
    if (!is_list[k]) return optional(tensor(begin[k]));
    std::vector<at::Tensor> tensors;
    for (int i = begin[k]; i < begin[k + 1]; ++i) tensors.push_back(tensor(i));
    if (!type_text(declared).starts_with("Tensor?")) return tensors;
    std::vector<std::optional<at::Tensor>> list;
    for (const at::Tensor& each : tensors)
      list.push_back(each.defined() ? std::optional(each) : std::nullopt);
    return list;
  }
  BoxedValues saved_values() {
    BoxedValues stack;
    stack.reserve(layout.plan->inputs.size());
    const auto& schema = layout.op->schema;
    for (const auto& [role, k] : layout.plan->inputs) {
      if (role == GradientPlan::Role::result)
        stack.push_back(
            unpack(k, layout.result_begin, layout.result_is_list, results, true, schema.returns()[k]));
      else if (role != GradientPlan::Role::argument)
        stack.emplace_back();
      else if (layout.argument_begin[k] == layout.argument_begin[k + 1])
        stack.push_back(plain[k]);
      else
        stack.push_back(unpack(k, layout.argument_begin, layout.argument_is_list, arguments, false,
                               schema.arguments()[k]));
    }
    return stack;
  }
  // Makes hidden results outputs of this node if their gradients may be requested. Until then they are not in
  // the graph, because only this node has them.
  void link_hidden(BoxedValues& values) {
    if (!layout.hidden || !c10::GradMode::is_enabled()) return;
    for (size_t a = 0; a < values.size(); ++a) {
      const auto [role, k] = layout.plan->inputs[a];
      if (role != GradientPlan::Role::result || k < layout.op->results - layout.hidden) continue;
      auto next = static_cast<uint32_t>(layout.result_begin[k]);
      values[a] = map_tensors(values[a], [&](const at::Tensor& tensor) {
        const uint32_t number = next++;
        if (!tensor.defined() || !ag::isDifferentiableType(tensor.scalar_type())) return tensor;
        if (ag::InputMetadata& known = mutable_input_metadata(number); known.was_default_constructed()) {
          std::destroy_at(&known);
          std::construct_at(&known, tensor);
        }
        at::Tensor linked = ag::make_variable(tensor, ag::Edge(getptr(), number));
        if (const at::Tensor tangent = forward_gradient(tensor); tangent.defined())
          linked._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/false);
        return linked;
      });
    }
  }
  // Multiplies the gradients that forward has computed, in place, and gives them away. Returns nothing if one
  // is missing, or if the graph or a hook may show them to somebody once more.
  std::optional<ag::variable_list> scale_early(const ag::variable_list& incoming) {
    const OperatorBody& body = *layout.op->body;
    if (body.early.empty() || c10::GradMode::is_enabled() || ag::get_current_graph_task_keep_graph() ||
        results.empty() || !is_plain(incoming.at(0)))
      return std::nullopt;
    ag::variable_list gradients(num_outputs());
    std::vector<at::Tensor> list;
    std::vector<bool> need = needs();
    for (const auto& [argument, result] : body.early) {
      const int edge = layout.argument_begin[argument];
      if (!need[edge]) continue;
      const ag::SavedVariable& saved = results[layout.result_begin[result]];
      if (saved.has_hooks()) return std::nullopt;
      gradients[edge] = saved.unpack(getptr());
      if (!is_plain(gradients[edge])) return std::nullopt;
      list.push_back(gradients[edge]);
      need[edge] = false;
    }
    if (list.empty() || std::find(need.begin(), need.end(), true) != need.end()) return std::nullopt;
    BoxedValues stack{std::move(list), incoming[0]};
    c10::Dispatcher::singleton().findSchemaOrThrow(body.scale.c_str(), "").callBoxed(stack);
    return gradients;
  }
  // Writes the first gradient over the incoming one, and returns all. Returns nothing if somebody else may
  // see the incoming one, or not all are wanted.
  std::optional<ag::variable_list> overwrite(const ag::variable_list& incoming) {
    const OperatorBody& body = *layout.op->body;
    if (body.in_place.empty() || c10::GradMode::is_enabled() || !is_plain(incoming.at(0)))
      return std::nullopt;
    const at::Tensor& grad = incoming[0];
    const std::vector<bool> need = needs();
    if (grad.use_count() != 1 || grad.storage().use_count() != 1 || !grad.is_non_overlapping_and_dense() ||
        std::find(need.begin(), need.end(), false) != need.end())
      return std::nullopt;
    BoxedValues values = saved_values(), given;
    ag::variable_list gradients{grad};
    for (size_t a = 0; a < values.size(); ++a) {
      if (layout.plan->inputs[a].role != GradientPlan::Role::argument) continue;
      given.push_back(values[a]);
      if (!values[a].isTensor()) continue;
      const at::Tensor& argument = values[a].toTensor();
      if (!is_plain(argument)) return std::nullopt;
      if (given.size() > 1) gradients.push_back(result_like(argument));
    }
    if (gradients.size() != num_outputs()) return std::nullopt;
    BoxedValues stack(gradients.begin(), gradients.end());
    stack.insert(stack.end(), given.begin(), given.end());
    c10::Dispatcher::singleton().findSchemaOrThrow(body.in_place.c_str(), "").callBoxed(stack);
    return gradients;
  }
  std::vector<bool> needs() {
    std::vector<bool> list(num_outputs());
    for (size_t i = 0; i < list.size(); ++i) list[i] = task_should_compute_output(i);
    return list;
  }
  ag::variable_list apply(ag::variable_list&& incoming) override {
    std::lock_guard lock(mutex_);
    TORCH_CHECK(!released, ag::ERR_BACKWARD_TWICE);
    if (auto scaled = scale_early(incoming)) return *std::move(scaled);
    if (auto written = overwrite(incoming)) return *std::move(written);
    BoxedValues values = saved_values();
    link_hidden(values);
    return gradient(layout, needs(), incoming, std::move(values));
  }

  // For compiled autograd: constants become part of the key, saved tensors become inputs of the graph.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override {
    args.collect(layout.op->name);
    for (const int i : layout.argument_begin) args.collect(static_cast<int64_t>(i));
    for (const IValue& value : plain) args.collect(value);
    args.collect(arguments, false);
    args.collect(results, true);
  }
  ag::variable_list apply_with_saved(const ag::variable_list& incoming,
                                     torch::dynamo::autograd::SwapSavedVariables& saved) override {
    namespace dynamo = torch::dynamo::autograd;
    saved.before(plain);
    saved.before(arguments);
    saved.before(results);
    BoxedValues values = saved_values();
    std::vector<at::TypePtr> types;
    for (const IValue& value : values)
      types.push_back(value.isTensor() ? at::TypePtr(at::TensorType::get()) : value.type());
    const auto metadata = dynamo::IValuePacker<std::vector<std::optional<ag::InputMetadata>>>::pack(
        dynamo::get_input_metadata(next_edges()));
    const auto& compiler = dynamo::getPyCompilerInterface();
    auto* py_compiler = saved.get_py_compiler();
    const auto function = compiler->bind_function(
        py_compiler, name(),
        [layout = layout, need = needs()](const ag::variable_list& grads, const std::vector<IValue>& args) {
          return gradient(layout, need, grads, args);
        },
        types, /*is_custom_function=*/true, /*is_traceable=*/true);
    auto outputs =
        compiler->call_function(py_compiler, "apply_functional", function, incoming, values, metadata);
    saved.after(plain);
    saved.after(arguments);
    saved.after(results);
    return outputs;
  }
};

// Raises when it is reached, not when it is made: func.grad always differentiates with create_graph, so a
// gradient operator sees arguments that require grad even if nobody requested a second derivative.
struct MissingNode final : ag::Node {
  explicit MissingNode(const OperatorRecord& op)
      : operation_name(op.body->name), of_forward(op.is_forward), of_reverse(op.is_reverse) {}
  std::string operation_name;
  bool of_forward, of_reverse;
  std::string name() const override { return operation_name + "Backward"; }
  ag::variable_list apply(ag::variable_list&&) override { fail_now(); }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override { fail_now(); }
  ag::variable_list apply_with_saved(const ag::variable_list&,
                                     torch::dynamo::autograd::SwapSavedVariables&) override {
    fail_now();
  }

 private:
  [[noreturn]] void fail_now() const {
    const std::string forward = gradient_of(operation_name);
    if (of_forward)
      raise(operation_name, ErrorKind::unsupported,
            "reverse mode through its forward-mode derivative is not implemented; take forward mode of "
            "reverse mode (jacfwd of jacrev)");
    if (of_reverse)
      raise(operation_name, ErrorKind::unsupported,
            "its gradient is derived by the compiler, and that has no gradient itself; differentiate it once "
            "less");
    raise(operation_name, ErrorKind::unsupported,
          forward.empty()
              ? "has no gradient; call it under torch.no_grad() or on detached tensors (the operator's "
                "author can "
                "define one: docs/writing_an_operator.md)"
              : "double backward of " + forward + " is not implemented; differentiate it once only");
  }
};

// The modes that a call of an operator is differentiated in.
struct Modes {
  bool reverse = false, forward = false;
};
Modes modes_of(const OperatorRecord& op, const IValue* arguments) {
  Modes modes;
  for_each_tensor(op, arguments, [&](const at::Tensor& tensor) {
    if (!in_graph(tensor)) return;
    modes.forward = modes.forward || has_forward_gradient(tensor);
    modes.reverse |= tensor.requires_grad();
  });
  return modes;
}

// Returns the arguments without their tangents, and then the tangents, as the operator of forward mode takes
// them.
BoxedValues with_forward_gradients(const OperatorRecord& op, const IValue* arguments) {
  BoxedValues stack(arguments, arguments + op.arguments);
  for (const size_t i : op.tensor_arguments) {
    std::vector<std::optional<at::Tensor>> tangents;
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) {
      const at::Tensor tangent = forward_gradient(tensor);
      tangents.push_back(tangent.defined() ? std::optional(tangent) : std::nullopt);
    });
    const bool list = op.forward->kinds[stack.size()] == c10::TypeKind::ListType;
    stack.emplace_back(list                               ? IValue(std::move(tangents))
                       : tangents.empty() || !tangents[0] ? IValue()
                                                          : IValue(*tangents[0]));
    stack[i] = map_tensors(
        stack[i], [](const at::Tensor& tensor) { return in_graph(tensor) ? tensor._fw_primal(0) : tensor; });
  }
  return stack;
}

struct AutogradKernel final : c10::OperatorKernel {
  explicit AutogradKernel(std::shared_ptr<OperatorRecord> operation) : op(std::move(operation)) {}
  std::shared_ptr<OperatorRecord> op;

  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, BoxedValues* stack) {
    Modes modes = modes_of(*op, torch::jit::last(*stack, op->arguments).data());
    modes.reverse &= c10::GradMode::is_enabled();
    if (modes.forward) [[unlikely]]
      require_forward();
    if (modes.reverse) return reverse(handle, keys, stack, modes.forward);
    if (!modes.forward) return below(handle, keys, stack);
    BoxedValues forward = with_forward_gradients(*op, torch::jit::last(*stack, op->arguments).data());
    {
      at::AutoDispatchBelowADInplaceOrView guard;
      op->forward->handle->callBoxed(forward);
    }
    torch::jit::drop(*stack, op->arguments);
    std::copy(forward.begin(), forward.begin() + static_cast<std::ptrdiff_t>(op->results),
              std::back_inserter(*stack));
    set_forward_gradients(*stack, forward, op->results);
  }

 private:
  void require_forward() const {
    if (op->forward) return;
    raise(op->body->name, ErrorKind::unsupported,
          op->is_reverse
              ? "its gradient is derived by the compiler, and that has no forward-mode derivative; use "
                "reverse mode"
          : op->is_forward
              ? "forward mode twice is not implemented; differentiate forward once, and in reverse mode "
                "inside it (jacfwd of jacrev)"
              : "has no forward-mode derivative; use reverse mode (backward, torch.func.vjp)");
  }
  // `forward`: what the operator of forward mode returned, results and then their tangents.
  static void set_forward_gradients(const BoxedValues& stack, const BoxedValues& forward, size_t results) {
    const auto own = torch::jit::last(stack, results);
    for (size_t k = 0; k < results; ++k) {
      std::vector<at::Tensor> list;
      for_each_tensor(forward[results + k], [&](const at::Tensor& tangent) { list.push_back(tangent); });
      size_t j = 0;
      for_each_tensor(own[k], [&](const at::Tensor& result) {
        if (const at::Tensor tangent = j < list.size() ? list[j] : at::Tensor();
            result.defined() && tangent.defined())
          result._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/false);
        ++j;
      });
    }
  }

  void reverse(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, BoxedValues* stack,
               bool forward_too) {
    const size_t hidden = op->saver ? op->body->saved : 0;
    if (!op->body->early.empty() && op->saver) {
      std::vector<bool> wanted;
      for (const auto& [argument, result] : op->body->early) {
        const c10::IValue& value = torch::jit::last(*stack, op->arguments)[argument];
        wanted.push_back(value.isTensor() && in_graph(value.toTensor()) && value.toTensor().requires_grad());
      }
      stack->emplace_back(bools(wanted));
    }
    const bool saves =
        op->saver && (!op->body->chosen_saves ||
                      (!forward_too && may_choose(*op, torch::jit::last(*stack, op->arguments).data())));
    differentiate(op->saver ? op->saver : op, saves ? op->saver : op, saves ? *op->saver->handle : handle,
                  hidden, keys, stack, forward_too);
    stack->resize(stack->size() - hidden);
  }

  static void below(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, BoxedValues* stack) {
    at::AutoDispatchBelowADInplaceOrView guard;
    handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }

  // called: the target, or the operator without its hidden results, which are then undefined.
  static void differentiate(const std::shared_ptr<OperatorRecord>& target,
                            const std::shared_ptr<OperatorRecord>& called, const c10::OperatorHandle& handle,
                            size_t hidden, c10::DispatchKeySet keys, BoxedValues* stack, bool forward_too) {
    const auto arguments = torch::jit::last(*stack, target->arguments);
    BoxedValues forward;
    if (forward_too) {
      forward = with_forward_gradients(*called, arguments.data());
      called->forward->handle->callBoxed(forward);
    }
    NodePtr<ag::Node> base;
    NodePtr<OperatorNode> node;
    if (target->gradient.empty())
      base = make_node<MissingNode>(*target);
    else
      base = node = make_node<OperatorNode>();
    NodeLayout unused;
    NodeLayout& layout = node ? node->layout : unused;
    Flat inputs(layout.argument_begin, layout.argument_is_list);
    for (const IValue& value : arguments) inputs.add(value);
    ag::edge_list edges(inputs.tensors.size());
    for (size_t i = 0; i < edges.size(); ++i)
      if (const at::Tensor& tensor = *inputs.tensors[i]; in_graph(tensor) && tensor.requires_grad())
        edges[i] = ag::impl::gradient_edge(tensor);
    base->set_next_edges(std::move(edges));

    if (node) {
      layout.op = target;
      layout.plan = guarded(target->body->name, [&] { return gradient_plan(*target); });
      layout.hidden = hidden;
      c10::SmallVector<bool, few> wanted(inputs.tensors.size());
      for (const auto& [role, k] : layout.plan->inputs) {
        if (role != GradientPlan::Role::argument) continue;
        std::fill(wanted.begin() + inputs.begin[k], wanted.begin() + inputs.begin[k + 1], true);
        if (inputs.begin[k] < inputs.begin[k + 1]) continue;
        node->plain.resize(target->arguments);
        node->plain[k] = arguments[k];
      }
      save(inputs, wanted, false, node->arguments);
    }
    below(handle, keys, stack);
    for (size_t k = called->results; k < target->results; ++k) {
      const bool list = target->schema.returns()[k].type()->kind() == c10::TypeKind::ListType;
      stack->push_back(list ? IValue(std::vector<at::Tensor>()) : IValue(at::Tensor()));
    }

    Flat outputs(layout.result_begin, layout.result_is_list);
    for (const IValue& value : torch::jit::last(*stack, target->results)) outputs.add(value);
    const auto visible = static_cast<size_t>(layout.result_begin[target->results - hidden]);
    for (size_t i = 0; i < outputs.tensors.size(); ++i) {
      const at::Tensor& tensor = *outputs.tensors[i];
      if (i < visible && tensor.defined() && ag::isDifferentiableType(tensor.scalar_type()))
        ag::set_history(tensor, base);
      else
        base->add_input_metadata(ag::Node::undefined_input());
    }
    // Before results are saved, whose tangents the gradient operator needs.
    if (forward_too) {
      const auto all = torch::jit::last(*stack, target->results);
      const BoxedValues own(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(called->results));
      set_forward_gradients(own, forward, called->results);
    }
    if (!node) return;
    c10::SmallVector<bool, few> wanted(outputs.tensors.size());
    for (const auto& [role, k] : layout.plan->inputs)
      if (role == GradientPlan::Role::result)
        std::fill(wanted.begin() + outputs.begin[k], wanted.begin() + outputs.begin[k + 1], true);
    save(outputs, wanted, true, node->results);
  }

  // The list stays empty if no value is wanted.
  static void save(const Flat& from, const c10::SmallVector<bool, few>& wanted, bool results,
                   std::vector<ag::SavedVariable>& saved) {
    if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return;
    saved.reserve(wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i])
        saved.emplace_back(*from.tensors[i], results);
      else
        saved.emplace_back();
  }
};

struct MutatingAutogradKernel final : c10::OperatorKernel {
  explicit MutatingAutogradKernel(std::shared_ptr<OperatorRecord> operation) : op(std::move(operation)) {}
  std::shared_ptr<OperatorRecord> op;
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, BoxedValues* stack) {
    const auto arguments = torch::jit::last(*stack, op->arguments);
    const Modes modes = modes_of(*op, arguments.data());
    if (modes.forward)
      raise(op->name, ErrorKind::unsupported,
            "writes into its arguments and has no forward-mode derivative; use the operator that returns a "
            "result, or detach the arguments");
    if (modes.reverse && c10::GradMode::is_enabled())
      for (size_t i = 0; i < op->arguments; ++i)
        for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
          if (tensor.defined() && tensor.requires_grad())
            raise(op->name, ErrorKind::runtime,
                  "writes into its arguments and has no gradient, but '" + op->schema.arguments()[i].name() +
                      "' requires grad; call it under torch.no_grad()");
        });
    // Does not exclude ADInplaceOrView, because that kernel bumps the versions.
    at::AutoDispatchBelowAutograd guard;
    handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }
};

}  // namespace

torch::CppFunction autograd_kernel(std::shared_ptr<OperatorRecord> op) {
  return op->mutates ? boxed_kernel<MutatingAutogradKernel>(std::move(op))
                     : boxed_kernel<AutogradKernel>(std::move(op));
}

}  // namespace tile
