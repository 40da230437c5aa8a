// Vector add: a kernel, and the torch operator examples::vector_add that launches it, with its gradient.
#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

// One block adds one tile of `size` elements. The last tile reaches beyond the end: loads pad there, and
// stores drop.
void add_kernel(Array x, Array y, Array out, int size) {
  Tile i = bid(0);
  Tile sum = x.tiled_view({size}).load({i}) + y.tiled_view({size}).load({i});
  out.tiled_view({size}).store({i}, sum);
}
Kernel add("vector_add", add_kernel);

const auto vector_add =
    op("examples::vector_add(Tensor x, Tensor y) -> Tensor out")
        .outputs([](const at::Tensor& x, const at::Tensor& y) {
          if (x.dim() != 1 || !x.sym_sizes().equals(y.sym_sizes()))
            fail(ErrorKind::value, "x is ", x.sym_sizes(), " and y ", y.sym_sizes(), "; pass vectors of one length");
          return at::empty_like(x);
        })
        .run([](const at::Tensor& x, const at::Tensor& y, at::Tensor& out) {
          add.launch({ceil_div(x.numel(), 16384)}, x, y, out, 16384);
        })
        .grad("examples::vector_add_backward");

const auto vector_add_backward =
    op("examples::vector_add_backward(Tensor grad_out) -> (Tensor grad_x, Tensor grad_y)")
        .outputs([](const at::Tensor& grad) { return std::tuple(at::empty_like(grad), at::empty_like(grad)); })
        .run([](const at::Tensor& grad, at::Tensor& grad_x, at::Tensor& grad_y) {
          grad_x.copy_(grad);
          grad_y.copy_(grad);
        });

}  // namespace
