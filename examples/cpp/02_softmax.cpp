// Softmax over the rows of a matrix: reductions, a dtype for the computation, a gradient that reads the
// result.
#include <bit>

#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

// Plain C++ like this runs while the kernel is traced, once for each dtype.
DType compute_dtype(const Array& array) { return array.dtype() == f64 ? f64 : f32; }

void softmax_kernel(Array x, Array out, int rows, int columns) {
  Tile row = x.tiled_view({rows, columns}).load({bid(0), 0}, -inf).astype(compute_dtype(x));
  Tile e = exp(row - row.max(1, true));
  out.tiled_view({rows, columns}).store({bid(0), 0}, e / e.sum(1, true));
}
Kernel softmax("row_softmax", softmax_kernel);

void softmax_backward_kernel(Array grad_out, Array out, Array grad_x, int rows, int columns) {
  Tile g = grad_out.tiled_view({rows, columns}).load({bid(0), 0}).astype(compute_dtype(out));
  Tile y = out.tiled_view({rows, columns}).load({bid(0), 0}).astype(compute_dtype(out));
  grad_x.tiled_view({rows, columns}).store({bid(0), 0}, y * (g - (g * y).sum(1, true)));
}
Kernel softmax_backward("row_softmax_backward", softmax_backward_kernel);

// A tile holds whole rows. Widths are powers of two, so that few kernels serve every width.
struct RowTile {
  int rows, columns;
  int64_t blocks;
  explicit RowTile(const at::Tensor& x)
      : columns(static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(x.size(1), 64))))) {
    rows = std::max(1, 16384 / columns);
    blocks = x.size(1) == 0 ? 0 : ceil_div(x.size(0), rows);
  }
};

const auto row_softmax =
    op("examples::row_softmax(Tensor x) -> Tensor out")
        .outputs([](const at::Tensor& x) {
          if (x.dim() != 2) fail(ErrorKind::value, "x is ", x.sym_sizes(), "; pass a matrix");
          return at::empty_like(x);
        })
        .run([](const at::Tensor& x, at::Tensor& out) {
          RowTile tile(x);
          softmax.launch({tile.blocks}, x, out, tile.rows, tile.columns);
        })
        .grad("examples::row_softmax_backward");

const auto row_softmax_backward =
    op("examples::row_softmax_backward(Tensor grad_out, Tensor out) -> Tensor grad_x")
        .outputs([](const at::Tensor&, const at::Tensor& out) { return at::empty_like(out); })
        .run([](const at::Tensor& grad_out, const at::Tensor& out, at::Tensor& grad_x) {
          RowTile tile(out);
          softmax_backward.launch({tile.blocks}, grad_out, out, grad_x, tile.rows, tile.columns);
        });

}  // namespace
