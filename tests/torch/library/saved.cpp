// Operators whose launches save what their derived gradients would compute again.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "tile/op.h"

namespace {

using namespace tile;  // NOLINT: kernels are written in the language
using at::Tensor;

void silu_product_kernel(Array x, Array w, Array out) {
  const DType sum = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const View xs = x.tiled_view({32, 16}), ws = w.tiled_view({16, 32});
  Tile total = zeros({32, 32}, sum);
  for (Tile k : range(cdiv(x.dim(1), 16))) total = mma(xs.load({bid(0), k}), ws.load({k, bid(1)}), total);
  out.tiled_view({32, 32}).store({bid(0), bid(1)}, (total * sigmoid(total)).astype(out.dtype()));
}
Kernel silu_product_of("saved_silu_product", silu_product_kernel);

Tensor product_of(const Tensor& x, const Tensor& w) {
  return at::empty_symint({x.sym_size(0), w.sym_size(1)}, x.options());
}
Grid grid_of(const Tensor& x, const Tensor& w) { return {(x.size(0) + 31) / 32, (w.size(1) + 31) / 32}; }
void run_product(const Tensor& x, const Tensor& w, Tensor& out) {
  silu_product_of.launch(grid_of(x, w), x, w, out);
}

const auto product = op("tt::saved_product(Tensor x, Tensor w) -> Tensor")
                         .outputs(product_of)
                         .run(run_product)
                         .grad_by_compiler();
const auto lean_product = op("tt::lean_product(Tensor x, Tensor w) -> Tensor")
                              .outputs(product_of)
                              .run(run_product)
                              .grad_by_compiler({}, /*saves=*/false);

// Twice, with a copy of torch between the launches.
const auto twice = op("tt::saved_twice(Tensor x, Tensor w) -> Tensor")
                       .outputs(product_of)
                       .run([](const Tensor& x, const Tensor& w, Tensor& out) {
                         Tensor first = at::empty_like(out);
                         run_product(x, w, first);
                         const Tensor copy = at::empty_like(first).copy_(first);
                         run_product(copy, w, out);
                       })
                       .grad_by_compiler();

}  // namespace
