// Defines a torch operator from its schema, shape rule, body and gradient, and registers every dispatch key
// from them.
#pragma once
#include <memory>
#include <type_traits>

#include "support/error.h"
#include "support/location.h"
#include "torch/convert.h"

extern "C" int tile_ops_anchor();

namespace tile {

struct OperatorRecord;

// A call of an operator under vmap, for the author's own rule. Batched tensors have the batch extent first.
class VmapCall {
 public:
  using Results = std::vector<at::Tensor>;
  const c10::SymInt& size() const { return size_; }
  // True if it has a batch extent (for a list: at least one of its tensors).
  bool batched(std::string_view argument) const;
  c10::IValue& operator[](std::string_view argument);
  // Each of these calls the operator and returns its results, with the batch extent first.
  // `arguments` take the batch extent as one more leading extent.
  Results leading(const std::vector<std::string>& arguments);
  // The batch is folded into extent 0 of `arguments` and of the results.
  Results fold(const std::vector<std::string>& arguments);
  // Makes one call for each sample.
  Results loop();
  // Returns true if one of these results is wanted by output_mask; without such an argument all are.
  bool wanted(const std::vector<std::string>& results);
  // Calls the operator on the arguments as the author has rewritten them.
  Results call();

 private:
  friend struct VmapKernel;
  VmapCall(const OperatorRecord& op, BoxedValues arguments);
  size_t index(std::string_view argument) const;
  bool only(const std::vector<std::string>& arguments) const;  // no other argument is batched
  const OperatorRecord& op_;
  BoxedValues arguments_;
  std::vector<std::vector<bool>> batched_;  // one entry for each tensor of each argument
  c10::SymInt size_ = 0;
  std::vector<int> list_sizes_;  // of the results of the last call; -1: a tensor
};

// A handle on a registered operator. The methods that define it return it, so that a definition is one
// expression. None of them throws: see registration_errors().
class Operator {
 public:
  explicit Operator(std::shared_ptr<OperatorRecord> op) : op_(std::move(op)) {}

  // Checks the arguments and allocates the results, also for meta tensors and symbolic extents. Parameters:
  // the schema's arguments. Returns the results in order: a tensor, a tuple or a vector.
  template <class F>
  Operator& outputs(F function) {
    return set_outputs(box(std::move(function)));
  }
  // Fills the results on CPU and CUDA. Parameters: the arguments, then the results (at::Tensor&), then the
  // saved results. A result that was not allocated is an undefined tensor (an empty
  // std::optional<at::Tensor>).
  template <class F>
  Operator& run(F function) {
    return set_run(box(std::move(function)));
  }
  // Sets the operator that computes the gradient. Its arguments and results are matched by name.
  //
  // in_place: "(Tensor(a!) grad_out, Tensor(b!) grad_y, …, Tensor x, Tensor y, …) -> ()" of an operator with
  // one result. It writes the gradient of the first tensor over grad_out, and those of the others into the
  // tensors behind it; then come the arguments that the gradient takes. Backward calls it in the place of the
  // gradient operator where all gradients are wanted and nobody else can see grad_out.
  Operator& grad(std::string name, std::string in_place = "");
  // Derives the gradient from the kernels that run launches, by the compiler. The arguments `constants` have
  // no gradient: run's results do not depend on them, or what they depend on has the gradient elsewhere.
  // saves: if a gradient is wanted, launches also save what is expensive to compute again, unless saves()
  // says what is saved. Operators whose results are all named grad_… save nothing, because their own
  // gradients are seldom asked for.
  Operator& grad_by_compiler(std::vector<std::string> constants = {}, bool saves = true);
  // Declares further results that only backward needs, such as "Tensor mean, Tensor rstd". They are computed
  // if a gradient is wanted.
  //
  // With `scale`, saved results named "<argument>_grad" are early gradients: what the gradient is if that of
  // the operator's only result is 1. `bool[n] gradients_wanted`, one for each of them, follows the arguments
  // of saved_outputs and run: whether the argument requires grad. saved_outputs decides which are computed.
  // `scale` is the operator "(Tensor(a!)[] gradients, Tensor factor) -> ()"; backward calls it in the place
  // of the gradient operator where all that is wanted is there and nobody else can see it.
  Operator& saves(std::string results, std::string scale = "");
  // The same for results that the compiler chooses for the sizes of a call. They are undefined, unless the
  // sizes are numbers and no tensor is a batch of vmap or a DTensor.
  Operator& chosen_saves(std::string results);
  // Allocates the saved results. Parameters: the arguments, or the arguments followed by the results.
  template <class F>
  Operator& saved_outputs(F function) {
    return set_saved_outputs(box(std::move(function)));
  }

  // vmap: `arguments` take any leading extents. If a result of `sums` is wanted (it adds up over them) or
  // another argument is batched, the samples are computed one by one, as for an operator without a rule.
  Operator& leading(std::vector<std::string> arguments, std::vector<std::string> sums = {});
  // vmap: the batch is folded into extent 0 of `arguments` and of all results.
  Operator& fold(std::vector<std::string> arguments, std::vector<std::string> sums = {});
  // vmap: the author's own rule.
  Operator& vmap(std::function<VmapCall::Results(VmapCall&)> rule);

  // "keep": arguments are not changed; "lower": floating tensors get autocast's dtype; "fp32": float32.
  Operator& autocast(std::string policy) { return autocast(policy, policy); }
  Operator& autocast(std::string cpu, std::string cuda);
  // Returns the CUDA policy of torch's operator "aten::…", "fp32" or "keep", which differs between versions
  // of torch.
  static std::string fp32_like(const char* name);

  const std::string& name() const;
  // Throws if the definition has an error. If `complete`, also for missing parts and for a gradient operator
  // that does not match.
  void check(bool complete = true) const;

  // Calls the operator from C++ through the dispatcher; trailing arguments may be left to their defaults.
  template <class R = at::Tensor, class... A>
  R call(A&&... arguments) const {
    BoxedValues stack;
    stack.reserve(sizeof...(A) + 2);
    (stack.push_back(value(std::forward<A>(arguments))), ...);
    call_boxed(stack);
    return take<R>(name(), stack);
  }
  // Replaces the arguments on the stack by the results.
  void call_boxed(BoxedValues& stack) const;

  // Runs a further step of a definition. Its error is stored with the operator.
  Operator& step(const std::function<void()>& function);
  // The same for functions that take boxed values.
  Operator& set_outputs(BoxedFunction function);
  Operator& set_saved_outputs(BoxedFunction function);
  Operator& set_run(BoxedFunction function);

 private:
  // Adds the hidden result that holds what launches save.
  void save_launches();
  Operator& vmap_by(VmapCall::Results (VmapCall::*rule)(const std::vector<std::string>&),
                    std::vector<std::string> arguments, std::vector<std::string> sums);
  template <class F>
  Operator& attempt(const F& step);
  static c10::IValue value(std::nullopt_t) { return {}; }
  template <class T>
  static c10::IValue value(T&& argument) {
    if constexpr (std::is_integral_v<std::remove_cvref_t<T>> && !std::is_same_v<std::remove_cvref_t<T>, bool>)
      return static_cast<int64_t>(argument);
    else
      return c10::IValue(std::forward<T>(argument));
  }
  template <class R>
  static R take(const std::string& name, BoxedValues& stack) {
    if constexpr (std::is_same_v<R, at::Tensor>) {
      TORCH_CHECK(stack.size() == 1, name, ": has ", stack.size(),
                  " results, and call() gives one; name their types: call<std::tuple<…>>");
      return std::move(stack[0]).toTensor();
    } else if constexpr (!std::is_void_v<R>) {
      TORCH_CHECK(stack.size() == std::tuple_size_v<R>, name, ": has ", stack.size(),
                  " results, and call<std::tuple<…>> names ", std::tuple_size_v<R>, "; name each of them");
      return [&]<size_t... I>(std::index_sequence<I...>) {
        return R{std::move(stack[I]).to<std::tuple_element_t<I, R>>()...};
      }
      (std::make_index_sequence<std::tuple_size_v<R>>{});
    }
  }
  std::shared_ptr<OperatorRecord> op_;
};

// Registers an operator: "ns::name(Tensor input, float scale=1.0) -> Tensor out". A name may be registered
// once. Never throws, so that a static initialiser may call it: errors are stored for registration_errors(),
// and every use of the operator raises them.
Operator op(const std::string& schema, Location where = Location::current());
// Also accepts a registered name: the new definition replaces the old one at once (for notebooks).
Operator redefine(const std::string& schema, Location where = Location::current());

// Returns the errors of all definitions so far, including gradients that match no operator.
std::vector<std::string> registration_errors();
// Returns the sorted schemas of the operators defined here.
std::vector<std::string> registered_operators();

// A number that changes with every definition; cached lookups are then outdated.
uint64_t definitions();
// Sets a function that the defining thread calls after each definition; for bindings.
void set_definition_listener(void (*listener)());

namespace op_detail {
// Every file that includes this one refers to it, so that no linker drops the library, whose initialisers
// register operators.
[[maybe_unused]] inline const int keep_library = tile_ops_anchor();
}  // namespace op_detail

}  // namespace tile
