// rms_norm over the last axes, add_rms_norm, which adds a residual before, and their gradients.
#include <cmath>
#include <limits>

#include "norm.h"

namespace tile {
namespace {

// y = norm(x), or norm(x + residual), of the sum as it is stored.
template <class Array, class Tile>
struct RmsNormOf {
  Array x;
  std::optional<Array> residual, weight;
  Array y;
  std::optional<Array> sum, rstd;
  Tile eps;
  std::optional<Tile> tiles;  // row tiles of a block
  int rows, columns;
  bool holds_row;  // a tile has whole rows
  int axis;        // of columns in a tile
};
void rms_norm_kernel(const RmsNormOf<Array, Tile>& of) {
  const auto& [x, residual, weight, y, sum, rstd, eps, tiles, rows, columns, holds_row, axis] = of;
  if (residual && has_short_rows(x, rows, columns)) hint_threads(-1);  // more of the four arrays under way
  DType compute = weight && weight->dtype() == f64 ? f64 : compute_dtype(x.dtype());
  RowView in(x, bid(1), rows, columns, axis), out(y, bid(1), rows, columns, axis);
  const auto view = [&](const std::optional<Array>& array) {
    return array ? std::optional(RowView(*array, bid(1), rows, columns, axis)) : std::nullopt;
  };
  const std::optional<RowView> more = view(residual), added = view(sum);
  Tile extent = x.dim(2).astype(compute);
  each_row_tile(x, tiles, rows, [&](const Tile& row) {
    auto load = [&](const Operand& k) {
      Tile v = in.load(row, k).astype(compute);
      return more ? (v + more->load(row, k).astype(compute)).astype(x.dtype()).astype(compute) : v;
    };
    Tile total = zeros(axis ? Shape{rows, 1} : Shape{1, rows}, compute), loaded;
    auto squares = [&](const Operand& k) {
      loaded = load(k);
      if (added) added->store(row, k, loaded);
      return (loaded * loaded).sum(axis, true);
    };
    if (holds_row)
      total = squares(0);
    else
      for (Tile k : range(in.steps())) total += squares(k);
    Tile r = 1 / sqrt(total / extent + eps.astype(compute));
    if (rstd) RowView(*rstd, bid(1), rows, 1, axis).store(row, 0, r);
    auto store = [&](const Operand& k) {
      Tile v = (holds_row ? loaded : load(k)) * r;
      if (weight) v *= row_vector(*weight, k, columns, axis, compute);
      out.store(row, k, v);
    };
    if (holds_row)
      store(0);
    else
      for (Tile k : range(in.steps())) store(k);
  });
}

Kernel rms_norm_forward("rms_norm", rms_norm_kernel), add_rms_norm_forward("add_rms_norm", rms_norm_kernel);

double epsilon(const at::Tensor& input, std::optional<double> eps) {
  // Torch takes the epsilon of the dtype it computes in.
  if (eps) return *eps;
  return input.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                            : std::numeric_limits<float>::epsilon();
}

void check_rms_norm(const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
                    const std::optional<at::Tensor>& weight) {
  check_norm_input(input, normalized_shape);
  if (!weight) return;
  check_floating("weight", *weight);
  check_sizes("weight", *weight, normalized_shape, "normalized_shape is");
}

bool is_wide(const std::optional<at::Tensor>& weight) {
  return weight && weight->scalar_type() == at::kDouble;
}
at::Tensor empty_rstd(const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
                      const std::optional<at::Tensor>& weight) {
  return empty_statistics(input, normalized_shape.size(), is_wide(weight));
}

// residual and sum: both or neither.
void run_rms_norm(const at::Tensor& input, const at::Tensor* residual, size_t axes,
                  const std::optional<at::Tensor>& weight, std::optional<double> eps, const at::Tensor& out,
                  const at::Tensor* sum, const std::optional<at::Tensor>& rstd) {
  const std::optional<at::Tensor> vector = flat_parameter(weight);
  TensorPointers tensors{&out, &input}, statistics;
  if (residual) tensors = {&out, sum, &input, residual};
  const size_t results = residual ? 2 : 1, first = tensors.size();
  if (rstd) statistics.push_back(&*rstd);
  on_norm_rows(
      axes, tensors, statistics,
      [&](Rows& views) {
        const RowTile tile = row_tile_for_threads(views);
        const RowBlocks blocks = row_blocks(views, tile);
        views.each([&](int64_t) {
          const auto view = [&](bool there, size_t k) {
            return there ? std::optional(views.view(k)) : std::nullopt;
          };
          auto& kernel = residual ? add_rms_norm_forward : rms_norm_forward;
          kernel.launch(blocks.grid, {.x = views.view(results),
                                      .residual = view(residual, 3),
                                      .weight = vector,
                                      .y = views.view(0),
                                      .sum = view(sum, 1),
                                      .rstd = view(rstd.has_value(), first),
                                      .eps = epsilon(input, eps),
                                      .tiles = blocks.tiles,
                                      .rows = tile.rows,
                                      .columns = tile.columns,
                                      .holds_row = tile.holds_row(),
                                      .axis = views.transposed() ? 0 : 1});
        });
      },
      results);
}

const auto rms_norm =
    op("tile::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> "
       "Tensor out")
        .saves("Tensor rstd")
        .outputs([](const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
                    const std::optional<at::Tensor>& weight, std::optional<double>) {
          check_rms_norm(input, normalized_shape, weight);
          return result_like(input);
        })
        .saved_outputs([](const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
                          const std::optional<at::Tensor>& weight,
                          std::optional<double>) { return empty_rstd(input, normalized_shape, weight); })
        .run([](const at::Tensor& input, at::IntArrayRef normalized_shape,
                const std::optional<at::Tensor>& weight, std::optional<double> eps, at::Tensor& out,
                const std::optional<at::Tensor>& rstd) {
          run_rms_norm(input, nullptr, normalized_shape.size(), weight, eps, out, nullptr, rstd);
        })
        .leading({"input"})
        .autocast("keep", Operator::fp32_like("aten::rms_norm"))  // since torch 2.12
        .grad("tile::rms_norm_backward");

const auto rms_norm_backward =
    op("tile::rms_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor? weight, "
       "Tensor rstd, "
       "bool[2] output_mask) -> (Tensor grad_input, Tensor grad_weight)")
        .outputs([](const at::Tensor& grad_out, const at::Tensor& input, c10::SymIntArrayRef normalized_shape,
                    const std::optional<at::Tensor>& weight, const at::Tensor& rstd,
                    std::array<bool, 2> output_mask) {
          check_rms_norm(input, normalized_shape, weight);
          check_norm_gradient("grad_out", grad_out, input);
          check_statistics("rstd", rstd, input, normalized_shape.size(), is_wide(weight));
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
        .leading({"grad_out", "input", "rstd"}, {"grad_weight"})
        .grad_by_compiler({"rstd"});

const auto add_rms_norm =
    op("tile::add_rms_norm(Tensor input, Tensor residual, SymInt[] normalized_shape, Tensor? weight=None, "
       "float? eps=None) -> (Tensor out, Tensor sum)")
        .saves("Tensor rstd")
        .outputs([](const at::Tensor& input, const at::Tensor& residual, c10::SymIntArrayRef normalized_shape,
                    const std::optional<at::Tensor>& weight, std::optional<double>) {
          check_rms_norm(input, normalized_shape, weight);
          check_sizes("residual", residual, input.sym_sizes(), "'input' has");
          if (residual.scalar_type() != input.scalar_type())
            fail(ErrorKind::type, "'residual' is ", c10::toString(residual.scalar_type()), " and 'input' ",
                 c10::toString(input.scalar_type()), "; convert one with .to()");
          return std::tuple(result_like(input), result_like(input));
        })
        .saved_outputs([](const at::Tensor& input, const at::Tensor&, c10::SymIntArrayRef normalized_shape,
                          const std::optional<at::Tensor>& weight,
                          std::optional<double>) { return empty_rstd(input, normalized_shape, weight); })
        .run([](const at::Tensor& input, const at::Tensor& residual, at::IntArrayRef normalized_shape,
                const std::optional<at::Tensor>& weight, std::optional<double> eps, at::Tensor& out,
                at::Tensor& sum, const std::optional<at::Tensor>& rstd) {
          run_rms_norm(input, &residual, normalized_shape.size(), weight, eps, out, &sum, rstd);
        })
        .leading({"input", "residual"})
        .autocast("keep", Operator::fp32_like("aten::rms_norm"))
        .grad("tile::add_rms_norm_backward");

// Without grad_out nothing of the norm has a gradient.
const auto add_rms_norm_backward =
    op("tile::add_rms_norm_backward(Tensor? grad_out, Tensor? grad_sum, Tensor sum, SymInt[] "
       "normalized_shape, Tensor? weight, Tensor rstd, bool[2] output_mask) "
       "-> (Tensor grad_input_and_residual, Tensor grad_weight)")
        .outputs([](const std::optional<at::Tensor>& grad_out, const std::optional<at::Tensor>& grad_sum,
                    const at::Tensor& sum, c10::SymIntArrayRef normalized_shape,
                    const std::optional<at::Tensor>& weight, const at::Tensor& rstd,
                    std::array<bool, 2> output_mask) {
          check_rms_norm(sum, normalized_shape, weight);
          for (const auto& [name, grad] :
               {std::pair("grad_out", &grad_out), std::pair("grad_sum", &grad_sum)})
            if (*grad) check_norm_gradient(name, **grad, sum);
          check_statistics("rstd", rstd, sum, normalized_shape.size(), is_wide(weight));
          return std::tuple(output_mask[0] ? result_like(sum) : at::Tensor(),
                            parameter_gradient(output_mask[1] && grad_out, weight));
        })
        .run([](const std::optional<at::Tensor>& grad_out, const std::optional<at::Tensor>& grad_sum,
                const at::Tensor& sum, at::IntArrayRef normalized_shape,
                const std::optional<at::Tensor>& weight, const at::Tensor& rstd, std::array<bool, 2>,
                const std::optional<at::Tensor>& grad_input, const std::optional<at::Tensor>& grad_weight) {
          if (grad_out)
            norm_backward({*grad_out,
                           sum,
                           normalized_shape.size(),
                           weight,
                           std::nullopt,
                           rstd,
                           grad_input,
                           grad_weight,
                           {},
                           grad_sum});
          else if (grad_input && grad_sum)
            grad_input->copy_(*grad_sum);
          else if (grad_input)
            grad_input->zero_();
        })
        .leading({"grad_out", "grad_sum", "sum", "rstd"}, {"grad_weight"})
        .grad_by_compiler({"rstd"});

}  // namespace
}  // namespace tile
