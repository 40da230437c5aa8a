// tile::cross_entropy of class indices, and its gradient.
#include "../common/arguments.h"
#include "rows_of_logits.h"

namespace {

using at::Tensor;
using std::optional;
using namespace tile;  // NOLINT: an operator's file is written in the kernel language
using Sizes = std::vector<c10::SymInt>;

struct Inputs {
  const Tensor &input, &target;
  const optional<Tensor>& weight;
};

// One sample is a batch of one.
Logits batch(const Inputs& given, const LossOptions& options) {
  const auto& [input, target, weight] = given;
  Logits of{input, target, weight, sum_of_weights(weight, options), input.size(input.dim() == 1 ? 0 : 1)};
  if (input.dim() == 1) {
    of.logits = input.unsqueeze(0);
    of.target = target.unsqueeze(0);
  }
  return of;
}
optional<Tensor> in_batch(const optional<Tensor>& values, const Tensor& input) {
  return values && input.dim() == 1 ? values->unsqueeze(0) : values;
}
RowLse lse_in_batch(const optional<Tensor>& saved, const Tensor& input) {
  return row_lse(in_batch(saved, input), input.scalar_type());
}

void check(const Inputs& of, const LossRequest& request) {
  const auto& [input, target, weight] = of;
  require_floating("input", input);
  check_loss_options(request);
  if (input.dim() == 0)
    fail(ErrorKind::value, "input has no dimensions; it must be [C], [N, C] or [N, C, d1, ...]");
  const int64_t axis = input.dim() == 1 ? 0 : 1;
  Sizes sizes = input.sym_sizes().vec();
  const c10::SymInt classes = sizes[static_cast<size_t>(axis)];
  sizes.erase(sizes.begin() + axis);
  check_target(target, sizes, "input without its classes");
  if (classes == 0 && target.sym_numel() != 0)
    fail(ErrorKind::value, "input has shape ", input.sym_sizes(), "; it needs a class at least");
  if (!weight) return;
  require_floating("weight", *weight);
  if (weight->dim() != 1 || weight->sym_size(0) != classes)
    fail(ErrorKind::value, "weight has shape ", weight->sym_sizes(), "; it must be [", classes,
         "], a number for each class of input");
  if (weight->scalar_type() != input.scalar_type() && weight->scalar_type() != at::kFloat)
    fail(ErrorKind::type, "weight is ", dtype_name(weight->scalar_type()), " and input is ",
         dtype_name(input.scalar_type()), "; weight must have the dtype of input, or be float32");
}

// A batch of samples can be one call only if its rows are not reduced.
VmapCall::Results batched(VmapCall& call, const std::vector<std::string>& arguments) {
  const int64_t rank = call["input"].toTensor().dim() - (call.batched("input") ? 1 : 0);
  return call["reduction"].toStringRef() == "none" && rank > 1 ? call.fold(arguments) : call.loop();
}

const auto cross_entropy =
    op("tile::cross_entropy(Tensor input, Tensor target, *, Tensor? weight=None, int ignore_index=-100, "
       "str reduction=\"mean\", float label_smoothing=0.0, float z_loss=0.0) -> Tensor out")
        .saves("Tensor lse, Tensor divisors")
        .outputs([](const Inputs& of, const LossRequest& request) {
          check(of, request);
          return at::empty_symint(request.reduction == "none" ? of.target.sym_sizes() : c10::SymIntArrayRef(),
                                  of.input.options());
        })
        .saved_outputs([](const Inputs& of, const LossRequest& request) {
          const auto options = of.input.options().dtype(compute_dtype(of.input.scalar_type()));
          return std::tuple(empty_lse(of.input, of.target),
                            request.reduction == "mean" ? at::empty({2}, options) : Tensor());
        })
        .run([](const Inputs& given, const LossRequest& request, Tensor& out, const optional<Tensor>& lse,
                const optional<Tensor>& divisors) {
          const Tensor& input = given.input;
          const LossOptions options = request.options();
          const LossReduction reduce = parse_reduction(request.reduction);
          const Logits of = batch(given, options);
          check_classes(given.target, of.classes, options.ignore_index);
          const bool none = reduce == LossReduction::none;
          LossParts parts;
          loss_forward(of, options, std::nullopt, lse_in_batch(lse, input),
                       none ? in_batch(out, input) : std::nullopt, none ? nullptr : &parts, reduce);
          if (!none) add_up_losses(parts, out, divisors);
        })
        .vmap([](VmapCall& call) {
          return batched(call, {"input", "target"});
        })
        .autocast("fp32")
        .grad("tile::cross_entropy_backward");

const auto cross_entropy_backward =
    op("tile::cross_entropy_backward(Tensor grad_out, Tensor input, Tensor target, Tensor? weight, "
       "int ignore_index, str reduction, float label_smoothing, float z_loss, Tensor lse, Tensor? divisors) "
       "-> Tensor grad_input")
        .outputs([](const Tensor& grad_out, const Inputs& of, const LossRequest& request,
                    const SavedOfLoss& saved) {
          check(of, request);
          const at::ScalarType dtype = of.input.scalar_type();
          check_loss_gradient(grad_out, dtype, dtype, of.target, saved, request.reduction);
          return result_like(of.input);
        })
        .run([](const Tensor& grad_out, const Inputs& given, const LossRequest& request,
                const SavedOfLoss& saved, Tensor& grad_input) {
          const Tensor& input = given.input;
          const LossOptions options = request.options();
          const Logits of = batch(given, options);
          check_classes(given.target, of.classes, options.ignore_index);
          loss_backward(of, options, grad_out, lse_in_batch(saved.lse, input), saved.divisors,
                        *in_batch(grad_input, input));
        })
        .vmap([](VmapCall& call) {
          return batched(call, {"grad_out", "input", "target", "lse"});
        })
        .grad_by_compiler({"weight", "lse", "divisors"});

}  // namespace
