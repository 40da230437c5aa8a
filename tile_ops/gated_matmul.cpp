// tile::gated_matmul: activation(input @ gate_weight) * (input @ up_weight) from one launch, and its
// gradient.
#include "arguments.h"
#include "gated.h"
#include "product.h"

namespace {

using at::Tensor;
using namespace tile;  // NOLINT: an operator's file is written in the kernel language

using Sizes = std::vector<c10::SymInt>;

// The result's, after everything that gated_matmul() demands of its arguments holds.
Sizes checked_sizes(const Tensor& input, const Tensor& gate_weight, const Tensor& up_weight,
                    const std::string& activation) {
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
Tensor result(const Tensor& input, const Tensor& gate_weight, const Tensor& up_weight,
              const std::string& activation) {
  return at::empty_symint(checked_sizes(input, gate_weight, up_weight, activation), input.options());
}

// A vector is a matrix of one row.
Tensor matrix(const Tensor& tensor) {
  return tensor.defined() && tensor.dim() == 1 ? tensor.unsqueeze(0) : tensor;
}

// The gradients of both products, [2, ..., n]; of one that nobody wants nothing is written.
Tensor gradients(const Tensor& grad, const Tensor& pre_gate, const Tensor& pre_up,
                 const std::string& activation, bool of_gate, bool of_up) {
  std::vector<int64_t> sizes = pre_gate.sizes().vec();
  sizes.insert(sizes.begin(), 2);
  Tensor both = at::empty(sizes, pre_gate.options());
  const auto part = [&](int64_t which, bool wanted) {
    return wanted ? std::optional(both.select(0, which)) : std::nullopt;
  };
  gated_gradients(parse_activation(activation), grad, pre_gate, pre_up, part(0, of_gate), part(1, of_up));
  return both;
}

const auto gated_matmul =
    op("tile::gated_matmul(Tensor input, Tensor gate_weight, Tensor up_weight, *, str activation=\"silu\") "
       "-> "
       "Tensor out")
        .outputs(result)
        .saves("Tensor pre_gate, Tensor pre_up")
        .saved_outputs([](const Tensor& input, const Tensor& gate_weight, const Tensor& up_weight,
                          const std::string& activation) {
          const auto pre = [&] { return result(input, gate_weight, up_weight, activation); };
          return std::tuple(pre(), pre());
        })
        .run([](const Tensor& input, const Tensor& gate_weight, const Tensor& up_weight,
                const std::string& activation, Tensor& out, Tensor& pre_gate, Tensor& pre_up) {
          multiply(matrix(input), gate_weight, matrix(out),
                   {.activation = parse_activation(activation),
                    .pre = matrix(pre_gate),
                    .other = up_weight,
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
        .outputs([](const Tensor& grad_out, const Tensor& input, const Tensor& gate_weight,
                    const Tensor& up_weight, const std::string& activation, const Tensor& pre_gate,
                    const Tensor& pre_up, std::array<bool, 3> wanted) {
          const Sizes sizes = checked_sizes(input, gate_weight, up_weight, activation);
          for (const auto& [name, given, what] :
               {std::tuple("grad_out", &grad_out, of_result), std::tuple("pre_gate", &pre_gate, as_saved),
                std::tuple("pre_up", &pre_up, as_saved)})
            require_agrees(name, *given, sizes, input.scalar_type(), what);
          return std::tuple(wanted[0] ? result_like(input) : Tensor(),
                            wanted[1] ? result_like(gate_weight) : Tensor(),
                            wanted[2] ? result_like(up_weight) : Tensor());
        })
        .run([](const Tensor& grad_out, const Tensor& input, const Tensor& gate_weight,
                const Tensor& up_weight, const std::string& activation, const Tensor& pre_gate,
                const Tensor& pre_up, std::array<bool, 3>, Tensor& grad_input, Tensor& grad_gate_weight,
                Tensor& grad_up_weight) {
          const bool to_input = grad_input.defined();
          const Tensor both =
              gradients(matrix(grad_out), matrix(pre_gate), matrix(pre_up), activation,
                        to_input || grad_gate_weight.defined(), to_input || grad_up_weight.defined());
          const Tensor x = matrix(input), columns = x.transpose(-2, -1);
          if (to_input)
            multiply(both, gate_weight.t(), matrix(grad_input),
                     {.other = up_weight.t(), .second = Second::summand});
          if (grad_gate_weight.defined()) multiply(columns, both.select(0, 0), grad_gate_weight);
          if (grad_up_weight.defined()) multiply(columns, both.select(0, 1), grad_up_weight);
        })
        .leading({"grad_out", "input", "pre_gate", "pre_up"}, {"grad_gate_weight", "grad_up_weight"});

}  // namespace
