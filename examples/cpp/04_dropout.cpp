// Dropout: random numbers, and a gradient that draws them again instead of saving a mask.
#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

constexpr int rows = 16, columns = 1024;

// The kernel is also its own gradient: the same elements are kept and scaled.
void dropout_kernel(Array x, Array seed, Array out, Tile p, Tile scale) {
  DType compute = x.dtype() == f64 ? f64 : f32;
  Tile tile = x.tiled_view({rows, columns}).load({bid(1), bid(0)}).astype(compute);
  // Each element has a number: which elements are kept depends on the seed, not on the tiles.
  Tile row = (bid(1) * rows + arange(rows)).expand_dims(1).astype(i64);
  Tile column = (bid(0) * columns + arange(columns)).expand_dims(0).astype(i64);
  Tile number = row * x.dim(1).astype(i64) + column;
  Tile key = seed.tiled_view({1}).load({0}).reshape({});
  Tile keep = uniform({rows, columns}, key, number) >= p;
  out.tiled_view({rows, columns}).store({bid(1), bid(0)}, where(keep, tile * scale.astype(compute), 0.0));
}
Kernel dropout("dropout", dropout_kernel);

void launch(const at::Tensor& x, double p, const at::Tensor& seed, at::Tensor& out) {
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  dropout.launch({ceil_div(x.size(1), columns), ceil_div(x.size(0), rows)}, x, seed, out, static_cast<float>(p), scale);
}

const auto dropout_ =
    op("examples::dropout(Tensor x, float p, Tensor seed) -> Tensor out")
        .outputs([](const at::Tensor& x, double p, const at::Tensor& seed) {
          if (x.dim() != 2) fail(ErrorKind::value, "x is ", x.sym_sizes(), "; pass a matrix");
          if (!(p >= 0 && p <= 1)) fail(ErrorKind::value, "p is ", p, "; pass a probability");
          if (seed.scalar_type() != at::kLong || seed.dim() != 1 || seed.sym_size(0) != 1)
            fail(ErrorKind::value, "seed is ", seed.scalar_type(), " ", seed.sym_sizes(), "; pass int64[1], as torch.randint gives it");
          return at::empty_like(x);
        })
        .run([](const at::Tensor& x, double p, const at::Tensor& seed, at::Tensor& out) { launch(x, p, seed, out); })
        .grad("examples::dropout_backward");

const auto dropout_backward_ =
    op("examples::dropout_backward(Tensor grad_out, float p, Tensor seed) -> Tensor grad_x")
        .outputs([](const at::Tensor& grad_out, double, const at::Tensor&) { return at::empty_like(grad_out); })
        .run([](const at::Tensor& grad_out, double p, const at::Tensor& seed, at::Tensor& grad_x) {
          launch(grad_out, p, seed, grad_x);
        });

}  // namespace
