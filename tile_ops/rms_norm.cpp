// rms_norm over the last axes, and its gradient.
#include <cmath>
#include <limits>

#include "norm.h"

namespace tile {
namespace {

void rms_norm_kernel(Array x, std::optional<Array> weight, Array y, std::optional<Array> rstd, Tile eps,
                     std::optional<Tile> tiles, int rows, int columns, bool whole, int axis) {
  DType compute = weight && weight->dtype() == f64 ? f64 : compute_dtype(x.dtype());
  RowView in(x, bid(1), rows, columns, axis), out(y, bid(1), rows, columns, axis);
  Tile extent = x.dim(2).astype(compute);
  each_row_tile(x, tiles, rows, [&](const Tile& row) {
    auto squares = [&](const Operand& k) {
      Tile v = in.load(row, k).astype(compute);
      return (v * v).sum(axis, true);
    };
    Tile total = zeros(axis ? Shape{rows, 1} : Shape{1, rows}, compute);
    if (whole)
      total = squares(0);
    else
      for (Tile k : range(in.steps())) total += squares(k);
    Tile r = 1 / sqrt(total / extent + eps.astype(compute));
    if (rstd) RowView(*rstd, bid(1), rows, 1, axis).store(row, 0, r);
    auto store = [&](const Operand& k) {
      Tile v = in.load(row, k).astype(compute) * r;
      if (weight) v *= row_vector(*weight, k, columns, axis, compute);
      out.store(row, k, v);
    };
    if (whole)
      store(0);
    else
      for (Tile k : range(in.steps())) store(k);
  });
}

Kernel rms_norm_forward("rms_norm", rms_norm_kernel);

double epsilon(const at::Tensor& input, std::optional<double> eps) {
  // Torch takes the epsilon of the dtype it computes in.
  if (eps) return *eps;
  return input.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                            : std::numeric_limits<float>::epsilon();
}

const auto rms_norm =
    op("tile::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> "
       "Tensor out")
        .saves("Tensor rstd")
        .outputs([](const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
                    const std::optional<at::Tensor>& weight, std::optional<double>) {
          check_norm_input(input, normalized_shape);
          if (weight) {
            check_floating("weight", *weight);
            check_sizes("weight", *weight, normalized_shape, "normalized_shape is");
          }
          return result_like(input);
        })
        .saved_outputs([](const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
                          const std::optional<at::Tensor>& weight, std::optional<double>) {
          return empty_statistics(input, normalized_shape.size(),
                                  weight && weight->scalar_type() == at::kDouble);
        })
        .run([](const at::Tensor& input, at::IntArrayRef normalized_shape,
                const std::optional<at::Tensor>& weight, std::optional<double> eps, at::Tensor& out,
                const std::optional<at::Tensor>& rstd) {
          const std::optional<at::Tensor> vector = flat_parameter(weight);
          TensorPointers statistics;
          if (rstd) statistics.push_back(&*rstd);
          on_norm_rows(normalized_shape.size(), {&out, &input}, statistics, [&](Rows& views, RowTile tile) {
            const RowBlocks blocks = row_blocks(views, tile);
            views.each([&](int64_t) {
              rms_norm_forward.launch(blocks.grid, views.view(1), vector, views.view(0),
                                      rstd ? std::optional(views.view(2)) : std::nullopt, epsilon(input, eps),
                                      blocks.tiles, tile.rows, tile.columns, tile.whole(),
                                      views.transposed() ? 0 : 1);
            });
          });
        })
        .leading({"input"})
        .autocast("keep", Operator::fp32_like("aten::rms_norm"))  // since torch 2.12
        .grad("tile::rms_norm_backward");

const auto rms_norm_backward =
    op("tile::rms_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor? weight, "
       "Tensor rstd, "
       "bool[2] output_mask) -> (Tensor grad_input, Tensor grad_weight)")
        .outputs([](const at::Tensor&, const at::Tensor& input, c10::SymIntArrayRef,
                    const std::optional<at::Tensor>& weight, const at::Tensor&,
                    std::array<bool, 2> output_mask) {
          return std::tuple(output_mask[0] ? result_like(input) : at::Tensor(),
                            parameter_gradient(output_mask[1], weight));
        })
        .run([](const at::Tensor& grad_out, const at::Tensor& input, at::IntArrayRef normalized_shape,
                const std::optional<at::Tensor>& weight, const at::Tensor& rstd, std::array<bool, 2>,
                const std::optional<at::Tensor>& grad_input, const std::optional<at::Tensor>& grad_weight) {
          norm_backward({grad_out,
                         input,
                         normalized_shape.size(),
                         weight,
                         std::nullopt,
                         rstd,
                         grad_input,
                         grad_weight,
                         {}});
        })
        .leading({"grad_out", "input", "rstd"}, {"grad_weight"});

}  // namespace
}  // namespace tile
