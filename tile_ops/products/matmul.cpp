// tile::matmul: activation(alpha * (input @ other) + bias) + residual, its gradient, and the gradient of
// that.
#include <ATen/ops/zeros.h>

#include "../common/arguments.h"
#include "../common/chunks.h"
#include "../common/derivation.h"
#include "../common/tuning.h"
#include "gemm.h"
#include "product_operands.h"
#include "recorded_product.h"
#include "tile/own_gradient.h"

namespace {

using at::Tensor;
using std::optional;
using namespace tile;  // NOLINT: an operator's file is written in the kernel language
using Sizes = ProductSizes;
using Operands = ProductOperands;

// Arguments of the operators, in the order of their schemas.
struct Options {
  const optional<Tensor>& bias;
  const std::string& activation;
  const optional<Tensor>& residual;
  double alpha;
  optional<at::ScalarType> out_dtype;
};
// Arguments of the forward that a gradient takes.
struct Saved {
  const optional<Tensor>& bias;
  const std::string& activation;
  double alpha;
  const optional<Tensor>&pre, &residual_like;
};
struct OperandGradients {
  const Tensor &input, &other, &bias;
};
// Those of the gradients, in the double backward.
struct GradientsTo {
  const optional<Tensor>&input, &other, &bias, &residual;
};

Tensor result(const Operands& of, const Options& then) {
  const auto& [input, other] = of;
  const auto& [bias, activation, residual, alpha, out_dtype] = then;
  const Sizes sizes = product_sizes(input, other);
  parse_activation(activation);
  require_broadcasts("bias", bias, sizes);
  require_broadcasts("residual", residual, sizes);
  if (out_dtype) require_floating("out_dtype", *out_dtype);
  return at::empty_symint(sizes, input.options().dtype(out_dtype.value_or(input.scalar_type())));
}

void activation_gradient_kernel(Array grad, Array pre, Array out, Activation activation, int rows,
                                int columns) {
  const auto tiled = [&](Array array) { return array[{bid(2)}].tiled_view({rows, columns}); };
  DType compute = out.dtype() == f64 ? f64 : f32;
  Tile x = tiled(pre).load({bid(1), bid(0)}).astype(compute),
       g = tiled(grad).load({bid(1), bid(0)}).astype(compute);
  tiled(out).store({bid(1), bid(0)}, activation_gradient(activation, x, g));
}
Kernel activation_gradient_of("matmul_activation_gradient", activation_gradient_kernel);

// How an elementwise kernel loops over tensors of one shape, as [batch, rows, columns]: as one row where all
// are dense. On a GPU a tile is what registers hold.
struct ElementTiles {
  ElementTiles(std::initializer_list<Tensor> tensors) : cpu(tensors.begin()->is_cpu()) {
    for (const Tensor& tensor : tensors) flat &= tensor.is_contiguous() && tensor.numel() <= max_extent;
  }
  bool cpu, flat = true;
  int rows() const { return flat ? 1 : 64; }
  int columns() const { return (cpu ? tuning::cpu_tile : tuning::gpu_tile) / rows(); }
  Tensor view(Tensor tensor) const {
    if (flat) return tensor.view({1, 1, -1});
    while (tensor.dim() < 3) tensor = tensor.unsqueeze(0);
    return tensor.flatten(0, -3);
  }
  Grid grid(const Tensor& tensor) const {
    return {ceil_div(tensor.size(2), columns()), ceil_div(tensor.size(1), rows()), tensor.size(0)};
  }
};

// The gradient of what enters the activation, into a dense tensor of the operands' dtype.
void gradient_before(Activation activation, const Tensor& grad, const optional<Tensor>& pre,
                     const Tensor& out) {
  if (activation == Activation::none) {
    out.copy_(grad);
    return;
  }
  if (out.numel() == 0) return;
  const ElementTiles tiles{grad, *pre};
  const Tensor to = tiles.view(out);
  activation_gradient_of.launch(tiles.grid(to), tiles.view(grad), tiles.view(*pre), to, activation,
                                tiles.rows(), tiles.columns());
}

// The result's extents, after what grad_out and the forward's arguments must be.
Sizes checked_gradient(const Tensor& grad_out, const Operands& of, const Saved& saved) {
  const auto& [input, other] = of;
  Sizes sizes = product_sizes(input, other);
  require_floating("grad_out", grad_out);  // of out_dtype
  require_agrees("grad_out", grad_out, sizes, grad_out.scalar_type(), of_result);
  require_broadcasts("bias", saved.bias, sizes);
  require_broadcasts("residual_like", saved.residual_like, sizes);
  return sizes;
}

// Returns the numbers that entered the activation; as a product where launches are recorded.
Tensor pre_of(const Saved& saved, const Matrices& as, const Tensor& x, const Tensor& y) {
  const Tensor pre = as.out(defined(saved.pre));
  return pre.defined() && is_recorded() ? product_again(pre, x, y, as.out(defined(saved.bias)), saved.alpha)
                                        : pre;
}

// Computes the gradients of the operands and of the bias from the gradient before the activation, which is
// made in chunks if it is large.
void run_gradients(const Tensor& grad_out, const Operands& of, const Saved& saved,
                   const OperandGradients& grads) {
  const auto& [input, other] = of;
  const auto& [grad_input, grad_other, grad_bias] = grads;
  const Matrices as(input, other);
  const Activation activation = parse_activation(saved.activation);
  const double alpha = saved.alpha;
  const Tensor x = as.input(input), y = as.other(other), incoming = as.out(grad_out),
               before = pre_of(saved, as, x, y);
  const at::IntArrayRef whole = incoming.sizes();
  Tensor grad = incoming;
  std::vector<ChunkGradient> gradients;
  if (grad_input.defined())
    gradients.push_back(
        {as.input(grad_input), -1, [&](const Chunk& chunk, const Tensor& out, bool accumulate) {
           multiply(grad, transposed(chunk.of(y, whole, -2)), out,
                    {.alpha = alpha, .accumulate = accumulate});
         }});
  if (grad_other.defined())
    gradients.push_back(
        {as.other(grad_other), -2, [&](const Chunk& chunk, const Tensor& out, bool accumulate) {
           multiply(transposed(chunk.of(x, whole, -1)), grad, out,
                    {.alpha = alpha, .accumulate = accumulate});
         }});
  if (grad_bias.defined())
    gradients.push_back({as.out(grad_bias), 0, [&](const Chunk&, const Tensor& out, bool accumulate) {
                           sum_to(grad, out, accumulate);
                         }});
  if (gradients.empty()) return;
  if (activation == Activation::none && grad_out.scalar_type() == input.scalar_type()) {
    for (const ChunkGradient& gradient : gradients) gradient.run(Chunk(whole), gradient.out, false);
    return;
  }
  const auto element = static_cast<int64_t>(input.element_size());
  const Tensor memory = at::empty({std::min(incoming.numel(), most_chunk_elements(element))}, x.options());
  in_chunks(whole, element, gradients, [&](const Chunk& chunk) {
    grad = memory.narrow(0, 0, chunk.elements()).view(chunk.count);
    gradient_before(activation, chunk.of(incoming, whole),
                    before.defined() ? optional(chunk.of(before, whole)) : std::nullopt, grad);
  });
}

// The gradient of the gradients where these are no products alone.
void run_double_with_activation(const GradientsTo& to, const Tensor& grad_out, const Operands& of,
                                const Saved& saved, Tensor& grad_grad_out, const OperandGradients& grads) {
  const Tensor* const results[] = {&grad_grad_out, &grads.input, &grads.other, &grads.bias};
  c10::List<bool> wanted;
  for (const Tensor* each : results) wanted.push_back(each->defined());
  for (int none = 0; none < 2; ++none) wanted.push_back(false);
  std::vector<c10::IValue> stack{
      to.input,         to.other,    to.bias,   to.residual,         grad_out, of.input, of.other, saved.bias,
      saved.activation, saved.alpha, saved.pre, saved.residual_like, wanted};
  call_operator("tile::_matmul_backward_reverse_mode", stack);
  for (size_t k = 0; k < std::size(results); ++k)
    if (results[k]->defined()) results[k]->copy_(stack[k].toTensor());
}

const auto matmul =
    op("tile::matmul(Tensor input, Tensor other, *, Tensor? bias=None, str activation=\"none\", Tensor? "
       "residual=None, "
       "float alpha=1.0, ScalarType? out_dtype=None) -> Tensor out")
        .outputs(result)
        // The residual's extents, for its gradient, in a tensor of one element.
        .saves("Tensor pre, Tensor residual_like")
        .saved_outputs([](const Operands& of, const Options& then) {
          // No narrower than the operands: a gradient needs what the rounding to out_dtype drops.
          const at::ScalarType own = of.input.scalar_type();
          Options wide = then;
          wide.out_dtype = c10::promoteTypes(own, then.out_dtype.value_or(own));
          const optional<Tensor>& residual = then.residual;
          return std::tuple(
              then.activation == "none" ? Tensor() : result(of, wide),
              residual ? at::zeros({}, residual->options()).expand_symint(residual->sym_sizes()) : Tensor());
        })
        .run([](const Operands& of, const Options& then, Tensor& out, Tensor& pre, Tensor&) {
          const Matrices as(of.input, of.other);
          multiply(as.input(of.input), as.other(of.other), as.out(out),
                   {.bias = as.out(defined(then.bias)),
                    .residual = as.out(defined(then.residual)),
                    .alpha = then.alpha,
                    .activation = parse_activation(then.activation),
                    .pre = as.out(pre),
                    .may_copy = true});
        })
        .grad("tile::matmul_backward")
        .vmap([](VmapCall& call) {
          return batched_product(call, {"input", "other", "bias", "residual"}, {"", "", "residual"});
        })
        .autocast("lower");

const auto matmul_backward =
    op("tile::matmul_backward(Tensor grad_out, Tensor input, Tensor other, Tensor? bias, str activation, "
       "float alpha, "
       "Tensor? pre, Tensor? residual_like, bool[4] output_mask) "
       "-> (Tensor grad_input, Tensor grad_other, Tensor grad_bias, Tensor grad_residual)")
        .outputs([](const Tensor& grad_out, const Operands& of, const Saved& saved,
                    std::array<bool, 4> wanted) {
          const auto& [input, other] = of;
          const auto& [bias, activation, alpha, pre, residual_like] = saved;
          const Sizes sizes = checked_gradient(grad_out, of, saved);
          if (parse_activation(activation) != Activation::none && !pre)
            fail(ErrorKind::value, "activation is ", activation,
                 " and 'pre' is not given; pass the product before the activation");
          if (pre)
            require_agrees("pre", *pre, sizes, c10::promoteTypes(input.scalar_type(), grad_out.scalar_type()),
                           as_saved);
          for (const auto& [name, given, want] :
               {std::tuple("bias", bias.has_value(), wanted[2]),
                std::tuple("residual_like", residual_like.has_value(), wanted[3])})
            if (want && !given)
              fail(ErrorKind::value, "output_mask asks for the gradient of '", name,
                   "', which is not given; clear its bit");
          return std::tuple(
              wanted[0] ? result_like(input) : Tensor(), wanted[1] ? result_like(other) : Tensor(),
              wanted[2] ? result_like(*bias) : Tensor(),
              wanted[3] ? at::empty_symint(residual_like->sym_sizes(), residual_like->options()) : Tensor());
        })
        .run([](const Tensor& grad_out, const Operands& of, const Saved& saved, std::array<bool, 4>,
                const OperandGradients& grads, Tensor& grad_residual) {
          if (grad_residual.defined()) sum_to(grad_out, grad_residual);
          run_gradients(grad_out, of, saved, grads);
        })
        .grad_by_compiler({"pre", "residual_like"})  // with an activation
        .grad("tile::matmul_double_backward")
        .vmap([](VmapCall& call) {
          return batched_product(call, {"grad_out", "input", "other", "bias", "pre", "residual_like"},
                                 {"input", "other", "bias", "residual_like"});
        });

const auto matmul_double_backward =
    op("tile::matmul_double_backward(Tensor? grad_grad_input, Tensor? grad_grad_other, Tensor? "
       "grad_grad_bias, "
       "Tensor? grad_grad_residual, Tensor grad_out, Tensor input, Tensor other, Tensor? bias, str "
       "activation, float alpha, "
       "Tensor? pre, Tensor? residual_like, bool[6] output_mask) -> (Tensor grad_grad_out, Tensor "
       "grad_input, "
       "Tensor grad_other, Tensor grad_bias, Tensor grad_pre, Tensor grad_residual_like)")
        .outputs([](const GradientsTo& to, const Tensor& grad_out, const Operands& of, const Saved& saved,
                    std::array<bool, 6> wanted) {
          const auto& [input, other] = of;
          checked_gradient(grad_out, of, saved);
          const auto agrees = [](const char* name, const optional<Tensor>& grad, const optional<Tensor>& of) {
            if (!grad) return;
            if (!of) fail(ErrorKind::value, name, " is given, but what it is of is not; pass None");
            require_agrees(name, *grad, of->sym_sizes(), of->scalar_type(), of_gradient);
          };
          agrees("grad_grad_input", to.input, input);
          agrees("grad_grad_other", to.other, other);
          agrees("grad_grad_bias", to.bias, saved.bias);
          agrees("grad_grad_residual", to.residual, saved.residual_like);
          const Tensor none;
          return std::tuple(
              wanted[0] ? result_like(grad_out) : none, wanted[1] ? result_like(input) : none,
              wanted[2] ? result_like(other) : none,
              wanted[3] && saved.bias && saved.activation != "none" ? result_like(*saved.bias) : none, none,
              none);
        })
        .run([](const GradientsTo& to, const Tensor& grad_out, const Operands& of, const Saved& saved,
                std::array<bool, 6>, Tensor& grad_grad_out, const OperandGradients& grads, Tensor&, Tensor&) {
          if (saved.activation != "none")
            return run_double_with_activation(to, grad_out, of, saved, grad_grad_out, grads);
          const auto& [input, other] = of;
          const double alpha = saved.alpha;
          const Matrices as(input, other);
          const auto scaled = [&](const Tensor& x, const Tensor& y, const Tensor& out, const Tensor& bias,
                                  const Tensor& residual) {
            multiply(x, y, out, {.bias = bias, .residual = residual, .alpha = alpha});
          };
          const auto zero = [](const Tensor& like) {
            return at::zeros({1}, like.options()).expand(like.sizes());
          };
          const Tensor x = as.input(to.input ? *to.input : zero(input)),
                       y = as.other(to.other ? *to.other : zero(other));
          const Tensor incoming = as.out(grad_out);
          const Tensor grad = grad_out.scalar_type() == input.scalar_type()
                                  ? incoming
                                  : at::empty(incoming.sizes(), input.options()).copy_(incoming);
          if (grad_grad_out.defined()) {
            const Tensor sum = at::empty(
                grad.sizes(),
                grad.options().dtype(input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
            scaled(x, as.other(other), sum, as.out(defined(to.bias)), as.out(defined(to.residual)));
            scaled(as.input(input), y, as.out(grad_grad_out), Tensor(), sum);
          }
          if (grads.input.defined()) scaled(grad, transposed(y), as.input(grads.input), Tensor(), Tensor());
          if (grads.other.defined()) scaled(transposed(x), grad, as.other(grads.other), Tensor(), Tensor());
        });

}  // namespace
