// Transpose: a tile is read along the rows of x and written along those of the result, so that both accesses
// are vectorised.
#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

// Tiles at the edges reach beyond the array: loads pad there, and stores drop. This handles matrices of any
// size.
void transpose_kernel(Array x, Array out, int size) {
  Tile i = bid(1), j = bid(0), batch = bid(2);
  out[{batch}].tiled_view({size, size}).store({j, i}, x[{batch}].tiled_view({size, size}).load({i, j}).t());
}
Kernel transpose_tiles("transpose", transpose_kernel);

// The tile is in the registers of a block on a GPU, and in the cache on a CPU.
int tile_size(const at::Tensor& x) { return x.is_cpu() ? 128 : 64; }

const auto transpose =
    op("kernels::transpose(Tensor x) -> Tensor out")
        .outputs([](const at::Tensor& x) {
          if (x.dim() != 3)
            fail(ErrorKind::value, "x is ", x.sym_sizes(), "; pass matrices, [batch, rows, columns]");
          return at::empty_symint({x.sym_size(0), x.sym_size(2), x.sym_size(1)}, x.options());
        })
        .run([](const at::Tensor& x, at::Tensor& out) {
          const int size = tile_size(x);
          transpose_tiles.launch({ceil_div(x.size(2), size), ceil_div(x.size(1), size), x.size(0)}, x, out,
                                 size);
        })
        .grad("kernels::transpose_backward");

const auto transpose_backward =
    op("kernels::transpose_backward(Tensor grad_out) -> Tensor grad_x")
        .outputs([](const at::Tensor& grad) {
          return at::empty_symint({grad.sym_size(0), grad.sym_size(2), grad.sym_size(1)}, grad.options());
        })
        .run([](const at::Tensor& grad, at::Tensor& grad_x) {
          const int size = tile_size(grad);
          transpose_tiles.launch({ceil_div(grad.size(2), size), ceil_div(grad.size(1), size), grad.size(0)},
                                 grad, grad_x, size);
        });

}  // namespace
