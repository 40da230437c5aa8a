// layer_norm over the last axes, and its gradient.
#include "norm.h"

namespace tile {
namespace {

template <class Array, class Tile>
struct LayerNormOf {
  Array x;
  std::optional<Array> weight, bias;  // [columns]
  Array y;
  std::optional<Array> mean, rstd;  // one value a row
  Tile eps;
  std::optional<Tile> tiles;  // row tiles of a block
  int rows, columns;
  RowFit fit;
  int axis;  // of columns in a tile
};
void layer_norm_kernel(const LayerNormOf<Array, Tile>& of) {
  const auto& [x, weight, bias, y, mean, rstd, eps, tiles, rows, columns, fit, axis] = of;
  const bool holds_row = fit != RowFit::looped;
  // The squares wait for the mean; of longer rows a thread would have too much. Sums of float32 would round
  // more.
  if (has_short_rows(x, rows, columns)) hint_threads(-1);
  DType compute = compute_dtype(x.dtype());
  Tile extent = x.dim(2).astype(compute);
  RowView in(x, bid(1), rows, columns, axis), out(y, bid(1), rows, columns, axis);
  Shape column = axis ? Shape{rows, 1} : Shape{1, rows};
  each_row_tile(x, tiles, rows, [&](const Tile& row) {
    auto load = [&](const Operand& k) { return in.load(row, k).astype(compute); };
    auto less = [&](const Operand& k, const Tile& v, const Tile& center) {
      if (fit == RowFit::exact) return v - center;
      return fma(inside_row(k, columns, axis, x.dim(2), compute), -center, v);
    };
    auto squares = [&](const Tile& d) { return (d * d).sum(axis, true); };
    Tile sum = zeros(column, compute), square_sum = zeros(column, compute), center, low, d;
    if (holds_row) {
      center = load(0).sum(axis, true) / extent;
      d = less(0, load(0), center);
      square_sum = squares(d);
    } else {
      // Relative to the first tile's mean; the rest is kept separately, because their sum would be rounded.
      center = load(0).sum(axis, true) / min(x.dim(2), columns).astype(compute);
      for (Tile k : range(in.steps())) sum += less(k, load(k), center).sum(axis, true);
      low = sum / extent;
      for (Tile k : range(in.steps())) square_sum += squares(less(k, less(k, load(k), center), low));
    }
    Tile scale = 1 / sqrt(square_sum / extent + eps.astype(compute));
    if (mean) RowView(*mean, bid(1), rows, 1, axis).store(row, 0, holds_row ? center : center + low);
    if (rstd) RowView(*rstd, bid(1), rows, 1, axis).store(row, 0, scale);
    auto store = [&](const Operand& k) {
      Tile v = (holds_row ? d : load(k) - center - low) * scale;
      auto vector = [&](const Array& of_columns) {
        return row_vector(of_columns, k, columns, axis, compute);
      };
      if (weight && bias)
        v = fma(v, vector(*weight), vector(*bias));
      else if (weight)
        v *= vector(*weight);
      else if (bias)
        v += vector(*bias);
      out.store(row, k, v);
    };
    if (holds_row)
      store(0);
    else
      for (Tile k : range(in.steps())) store(k);
  });
}

Kernel layer_norm_forward("layer_norm", layer_norm_kernel);

// Arguments of the operators, in the order of their schemas.
struct Inputs {
  const at::Tensor& input;
  c10::SymIntArrayRef normalized_shape;
  const std::optional<at::Tensor>&weight, &bias;
};
struct Gradients {
  const std::optional<at::Tensor>&input, &weight, &bias;
};
void check(const Inputs& of) {
  check_norm_input(of.input, of.normalized_shape);
  check_parameters(of.weight, of.bias, of.input, of.normalized_shape, "normalized_shape is");
}

const auto layer_norm =
    op("tile::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
       "float eps=1e-5) -> Tensor out")
        .saves("Tensor mean, Tensor rstd")
        .outputs([](const Inputs& of, double) {
          check(of);
          return result_like(of.input);
        })
        .saved_outputs([](const Inputs& of, double) {
          const auto statistics = [&] { return empty_statistics(of.input, of.normalized_shape.size()); };
          return std::tuple(statistics(), statistics());
        })
        .run([](const Inputs& of, double eps, at::Tensor& out, const std::optional<at::Tensor>& mean,
                const std::optional<at::Tensor>& rstd) {
          const auto& [input, normalized_shape, weight, bias] = of;
          const std::optional<at::Tensor> weights = flat_parameter(weight), biases = flat_parameter(bias);
          TensorPointers statistics;
          if (mean) statistics = {&*mean, &*rstd};
          on_norm_rows(normalized_shape.size(), {&out, &input}, statistics, [&](Rows& views) {
            const auto statistic = [&](size_t k) {
              return mean ? std::optional(views.view(k)) : std::nullopt;
            };
            const RowTile tile = row_tile_for_threads(views);
            const RowBlocks blocks = row_blocks(views, tile);
            views.each([&](int64_t) {
              layer_norm_forward.launch(blocks.grid, {.x = views.view(1),
                                                      .weight = weights,
                                                      .bias = biases,
                                                      .y = views.view(0),
                                                      .mean = statistic(2),
                                                      .rstd = statistic(3),
                                                      .eps = eps,
                                                      .tiles = blocks.tiles,
                                                      .rows = tile.rows,
                                                      .columns = tile.columns,
                                                      .fit = tile.fit,
                                                      .axis = views.transposed() ? 0 : 1});
            });
          });
        })
        .leading({"input"})
        .autocast("keep", "fp32")
        .grad("tile::layer_norm_backward");

const auto layer_norm_backward =
    op("tile::layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor? weight, "
       "Tensor? bias, "
       "Tensor mean, Tensor rstd, bool[3] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor "
       "grad_bias)")
        .outputs([](const at::Tensor& grad_out, const Inputs& of, const at::Tensor& mean,
                    const at::Tensor& rstd, std::array<bool, 3> output_mask) {
          check(of);
          check_norm_gradient("grad_out", grad_out, of.input);
          for (const auto& [name, saved] : {std::pair("mean", &mean), std::pair("rstd", &rstd)})
            check_statistics(name, *saved, of.input, of.normalized_shape.size());
          return std::tuple(output_mask[0] ? result_like(of.input) : at::Tensor(),
                            parameter_gradient(output_mask[1], of.weight),
                            parameter_gradient(output_mask[2], of.bias));
        })
        .run([](const at::Tensor& grad_out, const Inputs& of, const at::Tensor& mean, const at::Tensor& rstd,
                std::array<bool, 3>, const Gradients& grads) {
          norm_backward({grad_out, of.input, of.normalized_shape.size(), of.weight, mean, rstd, grads.input,
                         grads.weight, grads.bias});
        })
        .leading({"grad_out", "input", "mean", "rstd"}, {"grad_weight", "grad_bias"})
        .grad_by_compiler({"mean", "rstd"});

}  // namespace
}  // namespace tile
