// The kernel that multiplies by a number on the device, and tile::_scale_gradients_.
#include "scale.h"

#include "arguments.h"
#include "overlap.h"
#include "tile/rows.h"
#include "tuning.h"

namespace tile {
namespace {

using at::Tensor;

// Each block takes every num_blocks(0)-th tile, so that few blocks read the factor.
void scale_kernel(Array x, std::optional<Array> out, Array factor, int columns) {
  const DType compute = compute_dtype(x.dtype());
  Tile by = factor.tiled_view({1}).load({0}).reshape(Shape{}).astype(compute);
  View from = x.tiled_view({columns}), to = out ? out->tiled_view({columns}) : from;
  const auto multiply = [&] {
    for (Tile k : range(bid(0), from.num_tiles(0), num_blocks(0)))
      to.store({k}, from.load({k}).astype(compute) * by);
  };
  if (out) return multiply();
  when(by != 1, multiply);
}
Kernel scale_of("scale", scale_kernel);

// Tensors without gaps are one axis.
void scale_flat(const Tensor& x, const Tensor& factor, const Tensor& out) {
  const int columns = x.is_cpu() ? tuning::cpu_tile : tuning::gpu_tile;
  for (int64_t first = 0; first < x.numel(); first += extent_of_chunks) {
    const int64_t count = std::min(extent_of_chunks, x.numel() - first);
    const auto part = [&](const Tensor& t) { return strided(t, {count}, {1}, first); };
    const Grid grid{std::min(ceil_div(count, columns), tuning::sixteen_blocks_each)};
    scale_of.launch(grid, part(x), out.is_same(x) ? std::nullopt : std::optional(part(out)),
                    strided(factor, {1}, {1}), columns);
  }
}

}  // namespace

void scale(const Tensor& x, const Tensor& factor, const Tensor& out) {
  if (x.numel() == 0) return;
  if (!out.is_same(x) && x.strides() != out.strides()) {
    out.copy_(x);
    return scale(out, factor, out);
  }
  if (out.is_non_overlapping_and_dense()) return scale_flat(x, factor, out);
  const Tensor dense = x.contiguous();
  scale_flat(dense, factor, dense);
  out.copy_(dense);
}

namespace {

void check_scale(at::TensorList gradients, const Tensor& factor) {
  require_floating("factor", factor);
  if (factor.sym_numel() != 1)
    fail(ErrorKind::value, "factor has shape ", factor.sym_sizes(), "; it must have one element");
  for (const Tensor& gradient : gradients) require_floating("a gradient", gradient);
}

const auto scale_gradients =
    op("tile::_scale_gradients_(Tensor(a!)[] gradients, Tensor factor) -> ()")
        .outputs([](at::TensorList gradients, const Tensor& factor) { check_scale(gradients, factor); })
        .run([](at::TensorList gradients, const Tensor& factor) {
          for (const Tensor& gradient : gradients) require_no_overlap("a gradient", gradient);
          for (const Tensor& gradient : gradients) scale(gradient, factor, gradient);
        });

}  // namespace
}  // namespace tile
