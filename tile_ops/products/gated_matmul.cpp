// tile::gated_matmul: activation(input @ gate_weight) * (input @ up_weight) from one launch, and its
// gradient.
#include <algorithm>
#include <array>

#include "../common/arguments.h"
#include "../common/chunks.h"
#include "../common/derivation.h"
#include "../common/tuning.h"
#include "../elementwise/gated.h"
#include "gemm.h"
#include "recorded_product.h"

namespace {

using at::Tensor;
using namespace tile;  // NOLINT: an operator's file is written in the kernel language

using Sizes = std::vector<c10::SymInt>;

struct Operands {
  const Tensor &input, &gate_weight, &up_weight;
};
// The result's, after everything that gated_matmul() demands of its arguments holds.
Sizes checked_sizes(const Operands& of, const std::string& activation) {
  const auto& [input, gate_weight, up_weight] = of;
  require_floating("input", input);
  require_same_dtype("input", input, "gate_weight", gate_weight);
  require_same_dtype("input", input, "up_weight", up_weight);
  if (input.dim() == 0) fail(ErrorKind::value, "input has no dimensions; it must be [..., k]");
  if (gate_weight.dim() != 2)
    fail(ErrorKind::value, "gate_weight has shape ", gate_weight.sym_sizes(), "; it must be [k, n]");
  if (!gate_weight.sym_sizes().equals(up_weight.sym_sizes()))
    fail(ErrorKind::value, "gate_weight is ", gate_weight.sym_sizes(), " and up_weight ",
         up_weight.sym_sizes(), "; they must have one shape");
  const c10::SymInt k = input.sym_size(-1), rows = gate_weight.sym_size(0);
  if (k != rows)
    fail(ErrorKind::value, "cannot multiply input ", input.sym_sizes(), " by gate_weight ",
         gate_weight.sym_sizes(), "; the inner extents ", k, " and ", rows, " differ");
  parse_activation(activation);
  Sizes sizes = input.sym_sizes().vec();
  sizes.back() = gate_weight.sym_size(1);
  return sizes;
}
Tensor result(const Operands& of, const std::string& activation) {
  return at::empty_symint(checked_sizes(of, activation), of.input.options());
}

// A vector is a matrix of one row.
Tensor matrix(const Tensor& tensor) {
  return tensor.defined() && tensor.dim() == 1 ? tensor.unsqueeze(0) : tensor;
}

// Computes the gradients of the input, [..., k], and of the weights, from the gradients of both products.
// Large gradients of products are made in chunks. Those for the weights come first, because the memory of the
// input's gradient can hold one of them. A product's gradient that no wanted one needs is not written.
void run_gradients(const Tensor& grad_out, const Operands& of, Activation activation, const Tensor& pre_gate,
                   const Tensor& pre_up, const Operands& grads) {
  const auto& [input, gate_weight, up_weight] = of;
  const auto& [grad_input, grad_gate_weight, grad_up_weight] = grads;
  const at::IntArrayRef whole = pre_gate.sizes();
  const bool of_gate = grad_input.defined() || grad_gate_weight.defined(),
             of_up = grad_input.defined() || grad_up_weight.defined();
  std::array<Tensor, 2> parts;  // the chunk's gradients of the products, [..., n]
  Tensor both;                  // the same as one tensor, [2, ..., n]
  std::vector<ChunkGradient> gradients;
  const auto to_weight = [&](const Tensor& grad_weight, size_t which) {
    if (grad_weight.defined())
      gradients.push_back(
          {grad_weight, -2, [&, which](const Chunk& chunk, const Tensor& out, bool accumulate) {
             multiply(chunk.of(input, whole, -1).transpose(-2, -1), parts[which], out,
                      {.accumulate = accumulate});
           }});
  };
  to_weight(grad_gate_weight, 0);
  to_weight(grad_up_weight, 1);
  if (grad_input.defined())
    gradients.push_back({grad_input, -1, [&](const Chunk& chunk, const Tensor& out, bool accumulate) {
                           multiply(both, chunk.of(gate_weight, whole, -2).t(), out,
                                    {.accumulate = accumulate,
                                     .other = chunk.of(up_weight, whole, -2).t(),
                                     .second = Second::summand});
                         }});
  const int64_t pair = 2 * static_cast<int64_t>(input.element_size()),
                together = std::min(pre_gate.numel(), most_chunk_elements(pair));
  const Tensor memory = at::empty({2 * together}, pre_gate.options());
  // A chunk larger than half of the memory takes all of it, and as much of the input's gradient.
  const auto most = [&](const std::vector<const ChunkGradient*>& later) {
    const bool unwritten = std::any_of(later.begin(), later.end(), [&](const ChunkGradient* gradient) {
      return gradient->out.is_same(grad_input);
    });
    return unwritten && grad_input.is_non_overlapping_and_dense()
               ? std::max(together, std::min(2 * together, grad_input.numel()))
               : together;
  };
  in_chunks(whole, most, gradients, [&](const Chunk& chunk) {
    const int64_t elements = chunk.elements();
    std::vector<int64_t> sizes = chunk.count;
    if (elements > together) {
      parts = {grad_input.as_strided({elements}, {1}).view(sizes), memory.narrow(0, 0, elements).view(sizes)};
    } else {
      sizes.insert(sizes.begin(), 2);
      both = memory.narrow(0, 0, 2 * elements).view(sizes);
      parts = {both.select(0, 0), both.select(0, 1)};
    }
    const auto part = [&](size_t which, bool wanted) {
      return wanted ? std::optional(parts[which]) : std::nullopt;
    };
    gated_gradients(activation, chunk.of(grad_out, whole), chunk.of(pre_gate, whole), chunk.of(pre_up, whole),
                    part(0, of_gate), part(1, of_up));
  });
}

const auto gated_matmul =
    op("tile::gated_matmul(Tensor input, Tensor gate_weight, Tensor up_weight, *, str activation=\"silu\") "
       "-> "
       "Tensor out")
        .outputs(result)
        .saves("Tensor pre_gate, Tensor pre_up")
        .saved_outputs([](const Operands& of, const std::string& activation) {
          return std::tuple(result(of, activation), result(of, activation));
        })
        .run([](const Operands& of, const std::string& activation, Tensor& out, Tensor& pre_gate,
                Tensor& pre_up) {
          multiply(matrix(of.input), of.gate_weight, matrix(out),
                   {.activation = parse_activation(activation),
                    .pre = matrix(pre_gate),
                    .may_copy = true,
                    .other = of.up_weight,
                    .second = Second::factor,
                    .other_pre = matrix(pre_up)});
        })
        .grad("tile::gated_matmul_backward")
        .leading({"input"})
        .autocast("lower");

const auto gated_matmul_backward =
    op("tile::gated_matmul_backward(Tensor grad_out, Tensor input, Tensor gate_weight, Tensor up_weight, str "
       "activation, Tensor pre_gate, Tensor pre_up, bool[3] output_mask) -> (Tensor grad_input, Tensor "
       "grad_gate_weight, Tensor grad_up_weight)")
        .outputs([](const Tensor& grad_out, const Operands& of, const std::string& activation,
                    const Tensor& pre_gate, const Tensor& pre_up, std::array<bool, 3> wanted) {
          const auto& [input, gate_weight, up_weight] = of;
          const Sizes sizes = checked_sizes(of, activation);
          for (const auto& [name, given, what] :
               {std::tuple("grad_out", &grad_out, of_result), std::tuple("pre_gate", &pre_gate, as_saved),
                std::tuple("pre_up", &pre_up, as_saved)})
            require_agrees(name, *given, sizes, input.scalar_type(), what);
          return std::tuple(wanted[0] ? result_like(input) : Tensor(),
                            wanted[1] ? result_like(gate_weight) : Tensor(),
                            wanted[2] ? result_like(up_weight) : Tensor());
        })
        .run([](const Tensor& grad_out, const Operands& of, const std::string& activation,
                const Tensor& pre_gate, const Tensor& pre_up, std::array<bool, 3>, const Operands& grads) {
          Tensor gate = matrix(pre_gate), up = matrix(pre_up);
          if (is_recorded()) {
            gate = product_again(gate, matrix(of.input), of.gate_weight);
            up = product_again(up, matrix(of.input), of.up_weight);
          }
          run_gradients(matrix(grad_out), {matrix(of.input), of.gate_weight, of.up_weight},
                        parse_activation(activation), gate, up,
                        {matrix(grads.input), grads.gate_weight, grads.up_weight});
        })
        .leading({"grad_out", "input", "pre_gate", "pre_up"}, {"grad_gate_weight", "grad_up_weight"})
        .grad_by_compiler({"pre_gate", "pre_up"});

}  // namespace
