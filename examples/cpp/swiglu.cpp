// examples::swiglu: an elementwise kernel over strided matrices, its gradient, and a C++ function that calls it.
#include "swiglu.h"

#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

constexpr int rows = 16, columns = 1024;

Tile load(Array array, DType compute) { return array.tiled_view({rows, columns}).load({bid(1), bid(0)}).astype(compute); }
void store(Array array, Tile tile) { array.tiled_view({rows, columns}).store({bid(1), bid(0)}, tile); }
DType compute_dtype(const Array& array) { return array.dtype() == f64 ? f64 : f32; }

void swiglu_kernel(Array gate, Array up, Array out) {
  Tile x = load(gate, compute_dtype(gate));
  store(out, x * sigmoid(x) * load(up, compute_dtype(gate)));
}
Kernel swiglu_forward("swiglu", swiglu_kernel);

void swiglu_backward_kernel(Array grad_out, Array gate, Array up, Array grad_gate, Array grad_up) {
  DType compute = compute_dtype(gate);
  Tile g = load(grad_out, compute), x = load(gate, compute), u = load(up, compute);
  Tile s = sigmoid(x);
  store(grad_up, g * x * s);
  store(grad_gate, g * u * s * (1 + x * (1 - s)));
}
Kernel swiglu_backward("swiglu_backward", swiglu_backward_kernel);

Grid blocks(const at::Tensor& matrix) { return {ceil_div(matrix.size(1), columns), ceil_div(matrix.size(0), rows)}; }

const auto swiglu_ =
    op("examples::swiglu(Tensor gate, Tensor up) -> Tensor out")
        .outputs([](const at::Tensor& gate, const at::Tensor& up) {
          if (gate.dim() != 2 || !gate.sym_sizes().equals(up.sym_sizes()))
            fail(ErrorKind::value, "gate is ", gate.sym_sizes(), " and up ", up.sym_sizes(), "; pass matrices of one shape");
          return at::empty_like(gate);
        })
        .run([](const at::Tensor& gate, const at::Tensor& up, at::Tensor& out) {
          swiglu_forward.launch(blocks(out), gate, up, out);
        })
        .grad("examples::swiglu_backward");

const auto swiglu_backward_ =
    op("examples::swiglu_backward(Tensor grad_out, Tensor gate, Tensor up) -> (Tensor grad_gate, Tensor grad_up)")
        .outputs([](const at::Tensor&, const at::Tensor& gate, const at::Tensor& up) {
          return std::tuple(at::empty_like(gate), at::empty_like(up));
        })
        .run([](const at::Tensor& grad_out, const at::Tensor& gate, const at::Tensor& up, at::Tensor& grad_gate,
                at::Tensor& grad_up) {
          swiglu_backward.launch(blocks(gate), grad_out, gate, up, grad_gate, grad_up);
        });

}  // namespace

at::Tensor examples::swiglu(const at::Tensor& gate, const at::Tensor& up) { return swiglu_.call(gate, up); }
