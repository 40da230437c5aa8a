// Attention and its gradient as operators over samples of one length.
#include "../common/derivation.h"
#include "problem.h"
#include "tile/own_gradient.h"

namespace tile::attention {
namespace {

// The batch of vmap goes into the batch of attention; a bias first gets all four dimensions. What is one a
// head would have to be repeated, and dropout draws by the sample's number.
VmapCall::Results fold_batch(VmapCall& call, std::vector<std::string> arguments) {
  for (const char* each : {"alibi_slopes", "sinks", "seed"})
    if (call[each].isTensor()) return call.loop();
  if (call["attn_bias"].isTensor()) {
    const int64_t batched = call.batched("attn_bias");
    Tensor bias = call["attn_bias"].toTensor();
    while (bias.dim() < 4 + batched) bias = bias.unsqueeze(batched);
    call["attn_bias"] = bias;
    arguments.emplace_back("attn_bias");
  }
  return call.fold(arguments);
}

void lse_gradient_kernel(Array weight, Array incoming, Array out, int columns) {
  const auto tile = [&](const Array& array) { return array.tiled_view({columns}).load({bid(0)}); };
  out.tiled_view({columns}).store({bid(0)}, -(tile(weight) * tile(incoming)));
}
Kernel lse_gradient_of("attention_lse_gradient", lse_gradient_kernel);

// The gradient of lse that is one of weight = exp(top - lse).
Tensor lse_gradient(const Tensor& weight, const Tensor& incoming) {
  constexpr int columns = 512;
  const Tensor out = at::empty(weight.sizes(), weight.options());
  if (out.numel())
    lse_gradient_of.launch({ceil_div(out.numel(), columns)}, weight.contiguous().view({-1}),
                           incoming.contiguous().view({-1}), out.view({-1}), columns);
  return out;
}

// The weights of the rows as a step of a record, in which they depend on the scores: weight = exp(top - lse),
// whose top is taken for a constant.
Tensor weight_again(const Operands& of, const Saved& saved, const OptionalTensor& bias,
                    const Request& request) {
  const bool has_bias = bias && bias->is_floating_point(), has_sinks = request.sinks.has_value();
  std::vector<Tensor> read{of.query, of.key};
  if (has_bias) read.push_back(*bias);
  if (has_sinks) read.push_back(*request.sinks);
  std::vector<c10::IValue> arguments(2);  // the gradients of the results
  for (const Tensor* each :
       {&of.query, &of.key, &of.value, &saved.out, &saved.top, &saved.weight, &saved.residual})
    arguments.emplace_back(*each);
  arguments.emplace_back(bias);
  arguments.emplace_back(request.is_causal);
  arguments.emplace_back(request.causal_align);
  arguments.emplace_back(request.scale);
  arguments.emplace_back(request.window.vec());
  arguments.emplace_back(request.softcap);
  arguments.emplace_back(request.alibi_slopes);
  arguments.emplace_back(request.sinks);
  arguments.emplace_back(request.dropout_p);
  arguments.emplace_back(request.seed);
  const Tensor again = result_like(saved.weight);
  const auto gradients = [arguments, weight = saved.weight, has_bias, has_sinks](
                             const Tensor& incoming, const std::vector<bool>& wanted) {
    std::vector<c10::IValue> stack = arguments;
    stack[1] = lse_gradient(weight, incoming);
    const bool of_bias = has_bias && wanted.at(2), of_sinks = has_sinks && wanted.back();
    stack.emplace_back(c10::List<bool>({wanted.at(0), wanted.at(1), false, of_bias, of_sinks}));
    call_operator("tile::attention_backward", stack);
    std::vector<Tensor> list{stack[0].toTensor(), stack[1].toTensor()};
    if (has_bias) list.push_back(stack[3].toTensor());
    if (has_sinks) list.push_back(stack[4].toTensor());
    return list;
  };
  record_step({"weight_again", read, again, [again, weight = saved.weight] { Tensor(again).copy_(weight); },
               gradients});
  return again;
}

const auto attention_ =
    op("tile::attention(Tensor query, Tensor key, Tensor value, *, Tensor? attn_bias=None, bool "
       "is_causal=False, str causal_align=\"bottom_right\", float? scale=None, int[2] window=[-1, -1], float "
       "softcap=0.0, Tensor? alibi_slopes=None, Tensor? sinks=None, float dropout_p=0.0, Tensor? seed=None) "
       "-> (Tensor out, Tensor lse)")
        .outputs([](const Operands& of, const OptionalTensor& bias, const Request& request) {
          const Tensor& query = of.query;
          check_inputs(of, bias);
          check_request(request, query.sym_size(0), query.sym_size(1), query.scalar_type());
          std::vector<c10::SymInt> sizes = query.sym_sizes().vec();
          const c10::SymIntArrayRef rows(sizes.data(), 3);
          Tensor lse = at::empty_symint(rows, sum_options(query));
          sizes[3] = of.value.sym_size(3);
          return std::tuple(empty_in_order(query, sizes), std::move(lse));
        })
        .saves("Tensor top, Tensor weight, Tensor residual")
        .saved_outputs(
            [](const Operands&, const OptionalTensor&, const Request&, const Tensor& out, const Tensor& lse) {
              // Empty where out is not rounded.
              std::vector<c10::SymInt> sizes = out.sym_sizes().vec();
              if (out.scalar_type() == lse.scalar_type()) sizes[3] = 0;
              return std::tuple(result_like(lse), result_like(lse), empty_in_order(out, sizes));
            })
        .run([](const Operands& of, const OptionalTensor& bias, const Request& request,
                const Results& results) { run_forward(of, bias, request, results); })
        .vmap([](VmapCall& call) {
          return fold_batch(call, {"query", "key", "value"});
        })
        .autocast("lower")
        .grad("tile::attention_backward");

const auto attention_backward_ =
    op("tile::attention_backward(Tensor? grad_out, Tensor? grad_lse, Tensor query, Tensor key, Tensor value, "
       "Tensor out, Tensor top, Tensor weight, Tensor residual, *, Tensor? attn_bias, bool is_causal, str "
       "causal_align, float? scale, int[2] window, float softcap, Tensor? alibi_slopes, Tensor? sinks, float "
       "dropout_p, Tensor? seed, bool[5] output_mask) -> "
       "(Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor grad_attn_bias, Tensor grad_sinks)")
        .outputs([](const GradientsOfResults& incoming, const Operands& of, const Saved& saved,
                    const OptionalTensor& bias, const Request& request, std::array<bool, 5> mask) {
          const auto& [query, key, value] = of;
          const OptionalTensor& sinks = request.sinks;
          check_inputs(of, bias);
          check_request(request, query.sym_size(0), query.sym_size(1), query.scalar_type());
          const c10::SymIntArrayRef rows = query.sym_sizes().slice(0, 3);
          check_saved(query, {rows[0], rows[1], rows[2], value.sym_size(3)}, rows, saved);
          check_gradient(incoming.grad_out, saved.out, "out");
          check_gradient(incoming.grad_lse, saved.top, "lse");
          if (mask[3] && (!bias || !bias->is_floating_point()))
            fail(ErrorKind::value, "output_mask asks for the gradient of 'attn_bias', which is ",
                 bias ? "a bool mask" : "not given", "; clear its bit");
          if (mask[4] && !sinks)
            fail(ErrorKind::value,
                 "output_mask asks for the gradient of 'sinks', which is not given; clear its bit");
          const auto wanted = [&](bool want, const Tensor& of) {
            return want ? empty_in_order(of) : Tensor();
          };
          return std::tuple(wanted(mask[0], query), wanted(mask[1], key), wanted(mask[2], value),
                            mask[3] ? empty_in_order(*bias) : Tensor(),
                            mask[4] ? empty_in_order(*sinks) : Tensor());
        })
        .run([](const GradientsOfResults& incoming, const Operands& of, const Saved& saved,
                const OptionalTensor& bias, const Request& request, const std::array<bool, 5>&,
                const Operands& grads, Tensor& grad_bias, Tensor& grad_sinks) {
          if (is_recorded()) {
            const Tensor weight = weight_again(of, saved, bias, request);
            return run_backward({incoming,
                                 of,
                                 bias,
                                 {saved.out, saved.top, weight, saved.residual},
                                 grads,
                                 grad_bias,
                                 grad_sinks},
                                request);
          }
          run_backward({incoming, of, bias, saved, grads, grad_bias, grad_sinks}, request);
        })
        .grad_by_compiler({"top", "weight", "residual", "alibi_slopes"})
        .vmap([](VmapCall& call) {
          if (call.wanted({"grad_attn_bias"})) return call.loop();
          std::vector<std::string> arguments{"query", "key", "value", "out", "top", "weight", "residual"};
          for (const char* gradient : {"grad_out", "grad_lse"})
            if (call[gradient].isTensor()) arguments.emplace_back(gradient);
          return fold_batch(call, arguments);
        });

}  // namespace
}  // namespace tile::attention
