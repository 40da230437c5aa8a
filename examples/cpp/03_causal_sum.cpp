// Row sums of the lower triangle of a matrix: a traced loop, a mask, and a bound that skips masked tiles.
#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

// out[r] = sum of x[r, c] over c <= r. `total` is assigned in the loop, so the loop carries it.
void causal_sum_kernel(Array x, Array out, int rows, int columns) {
  View tiles = x.tiled_view({rows, columns});
  Tile i = bid(0);
  Tile row = (i * rows + arange(rows)).expand_dims(1);
  DType compute = x.dtype() == f64 ? f64 : f32;
  Tile total = zeros({rows}, compute);
  for (Tile k : range(min(cdiv((i + 1) * rows, columns), tiles.num_tiles(1)))) {
    Tile column = (k * columns + arange(columns)).expand_dims(0);
    total += where(column <= row, tiles.load({i, k}).astype(compute), 0).sum(1);
  }
  out.tiled_view({rows}).store({i}, total);
}
Kernel causal_sum("causal_sum", causal_sum_kernel);

// Every column c <= r of x gets the gradient of out[r].
void causal_sum_backward_kernel(Array grad_out, Array grad_x, int rows, int columns) {
  Tile row = (bid(1) * rows + arange(rows)).expand_dims(1);
  Tile column = (bid(0) * columns + arange(columns)).expand_dims(0);
  Tile g = grad_out.tiled_view({rows}).load({bid(1)}).expand_dims(1);
  grad_x.tiled_view({rows, columns}).store({bid(1), bid(0)}, where(column <= row, g, 0));
}
Kernel causal_sum_backward("causal_sum_backward", causal_sum_backward_kernel);

constexpr int tile_rows = 64, tile_columns = 256;

const auto causal_sum_ =
    op("examples::causal_sum(Tensor x) -> Tensor out")
        .outputs([](const at::Tensor& x) {
          if (x.dim() != 2) fail(ErrorKind::value, "x is ", x.sym_sizes(), "; pass a matrix");
          return at::empty_symint({x.sym_size(0)}, x.options());
        })
        .run([](const at::Tensor& x, at::Tensor& out) {
          causal_sum.launch({ceil_div(x.size(0), tile_rows)}, x, out, tile_rows, tile_columns);
        })
        .grad("examples::causal_sum_backward");

const auto causal_sum_backward_ =
    op("examples::causal_sum_backward(Tensor grad_out, Tensor x) -> Tensor grad_x")
        .outputs([](const at::Tensor&, const at::Tensor& x) { return at::empty_like(x); })
        .run([](const at::Tensor& grad_out, const at::Tensor& x, at::Tensor& grad_x) {
          causal_sum_backward.launch({ceil_div(x.size(1), tile_columns), ceil_div(x.size(0), tile_rows)}, grad_out,
                                     grad_x, tile_rows, tile_columns);
        });

}  // namespace
