// Checks of layer_norm and rms_norm, and the kernels of their gradient.
#include "norm.h"

#include "../common/arguments.h"
#include "../common/derivation.h"
#include "../common/partial_sums.h"
#include "../common/tuning.h"
#include "statistics_again.h"

namespace tile {
namespace {

// With d = x - mean, xhat = d rstd and u = g w: dx = rstd (u - mean(u) - xhat mean(u xhat)), dw = sum(g
// xhat), db = sum(g). rms_norm has d = x and no middle term.
template <class Array>
struct BackwardOf {
  Array g, x;                                // the gradient of the result, and the input
  std::optional<Array> added, weight, mean;  // added: to dx
  Array rstd;
};
struct RowTileShape {
  int rows, columns;  // of a tile
  int axis;           // of columns in it
};
struct BackwardTiles {
  RowView g, x;
  std::optional<RowView> added, mean;
  RowView rstd;
  std::optional<Array> weight;
  DType compute;
  int columns, axis;

  BackwardTiles(const BackwardOf<Array>& of, const Operand& slice, const RowTileShape& shape)
      : g(of.g, slice, shape.rows, shape.columns, shape.axis),
        x(of.x, slice, shape.rows, shape.columns, shape.axis),
        rstd(of.rstd, slice, shape.rows, 1, shape.axis),
        weight(of.weight),
        compute(of.rstd.dtype()),
        columns(shape.columns),
        axis(shape.axis) {
    if (of.added) added = RowView(*of.added, slice, shape.rows, columns, axis);
    if (of.mean) mean.emplace(*of.mean, slice, shape.rows, 1, axis);
  }
  Tile grad(const Tile& row, const Operand& k) const { return g.load(row, k).astype(compute); }
  Tile centred(const Tile& row, const Operand& k) const {
    Tile v = x.load(row, k).astype(compute);
    return mean ? v - mean->load(row, 0) : v;
  }
  Tile weighted(const Tile& v, const Operand& k) const {
    return weight ? v * row_vector(*weight, k, columns, axis, compute) : v;
  }
  // Returns the tile that is added to dx, if any.
  std::optional<Tile> more(const Tile& row, const Operand& k) const {
    return added ? std::optional(added->load(row, k).astype(compute)) : std::nullopt;
  }
  // dx = scale (u + shift + slope d) + more of a row, from its sums of u and of u d: 0 where the row has one
  // column.
  struct Line {
    Tile scale, slope, shift;
  };
  Line line(const Tile& row, const Tile& sum, const Tile& sum_d, const Tile& extent) const {
    Tile scale = rstd.load(row, 0);
    return {scale, -(scale * (scale * (sum_d / extent))), -(sum / extent)};
  }
  Tile result(const Tile& u, const Tile& d, const Line& l, const std::optional<Tile>& more) const {
    Tile v = fma(l.slope, d, mean ? u + l.shift : u);
    return more ? fma(l.scale, v, *more) : l.scale * v;
  }
};

// A block's row tiles, and the row of the partial sums that is its own. The whole row fits the tile.
template <class Array, class Tile>
struct NormBackwardOf {
  BackwardOf<Array> of;
  std::optional<Array> dx, dw, db;
  std::optional<Tile>
      tiles;     // consecutive tiles; without it blocks interleave: all work in one part of memory
  bool late;     // rows are added up after the loop, until then each in its own registers
  int together;  // tiles of an iteration, whose sums then wait for each other once
  RowTileShape shape;
};
void norm_backward_kernel(const NormBackwardOf<Array, Tile>& call) {
  const auto& [of, dx, dw, db, tiles, late, together, shape] = call;
  const auto [rows, columns, axis] = shape;
  const Array& x = of.x;
  BackwardTiles in(of, bid(1), shape);
  Tile extent = x.dim(2).astype(in.compute);
  const Shape all = axis ? Shape{rows, columns} : Shape{columns, rows};
  Tile sum_w = zeros(late ? all : Shape{columns}, in.compute), sum_b = sum_w;
  const auto down = [&](const Tile& t, bool now) {
    return !now ? t : rows == 1 ? t.reshape({columns}) : t.sum(1 - axis);
  };
  for (Tile iteration : tiles ? block_rows(x, *tiles, rows * together)
                              : range(bid(0), cdiv(x.dim(1), rows * together), num_blocks(0))) {
    struct Row {
      Tile index, dy, d, u, sum, sum_d;
      std::optional<Tile> more;
    };
    std::vector<Row> loaded;
    for (int i = 0; i < together; ++i) {
      Tile row = together > 1 ? iteration * together + i : iteration, dy = in.grad(row, 0);
      loaded.push_back({row, dy, in.centred(row, 0)});
    }
    if (dx)
      for (Row& row : loaded) {
        row.u = in.weighted(row.dy, 0), row.more = in.more(row.index, 0);
        row.sum = row.u.sum(axis, true), row.sum_d = (row.u * row.d).sum(axis, true);
      }
    for (const Row& row : loaded) {
      if (dx)
        RowView(*dx, bid(1), rows, columns, axis)
            .store(row.index, 0,
                   in.result(row.u, row.d, in.line(row.index, row.sum, row.sum_d, extent), row.more));
      if (dw) sum_w += down(row.dy * (row.d * in.rstd.load(row.index, 0)), !late);
      if (db) sum_b += down(row.dy, !late);
    }
  }
  Tile part = bid(1) * num_blocks(0) + bid(0);
  if (dw) dw->tiled_view({1, columns}).store({part, 0}, down(sum_w, late).expand_dims(0));
  if (db) db->tiled_view({1, columns}).store({part, 0}, down(sum_b, late).expand_dims(0));
}

// dx of rows longer than a tile.
void norm_backward_long_kernel(const BackwardOf<Array>& of, Array dx, const RowTileShape& shape) {
  const auto [rows, columns, axis] = shape;
  const auto& [g, x, added, weight, mean, rstd] = of;
  BackwardTiles in(of, bid(1), shape);
  RowView out(dx, bid(1), rows, columns, axis);
  Tile row = bid(0), extent = x.dim(2).astype(in.compute);
  auto weighted = [&](const Tile& k) { return in.weighted(in.grad(row, k), k); };
  Shape one = axis ? Shape{rows, 1} : Shape{1, rows};
  Tile sum = zeros(one, in.compute), sum_d = zeros(one, in.compute);
  for (Tile k : range(out.steps())) {
    Tile u = weighted(k);
    sum_d += (u * in.centred(row, k)).sum(axis, true);
    if (mean) sum += u.sum(axis, true);
  }
  BackwardTiles::Line line = in.line(row, sum, sum_d, extent);
  for (Tile k : range(out.steps()))
    out.store(row, k, in.result(weighted(k), in.centred(row, k), line, in.more(row, k)));
}

// The sums over rows of long rows: a block has some columns, and some row tiles of a slice.
void norm_columns_kernel(const BackwardOf<Array>& of, std::optional<Array> dw, std::optional<Array> db,
                         Tile tiles, const RowTileShape& shape) {
  const auto [rows, columns, axis] = shape;
  const Array& x = of.x;
  BackwardTiles in(of, bid(2), shape);
  Tile sum_w = zeros({columns}, in.compute), sum_b = zeros({columns}, in.compute);
  Tile k = bid(0);
  for (Tile row : block_rows(x, tiles, rows, bid(1))) {
    Tile dy = in.grad(row, k);
    const auto down = [&](const Tile& t) { return rows == 1 ? t.reshape({columns}) : t.sum(1 - axis); };
    if (dw) sum_w += down(dy * (in.centred(row, k) * in.rstd.load(row, 0)));
    if (db) sum_b += down(dy);
  }
  Tile part = bid(2) * num_blocks(1) + bid(1);
  if (dw) dw->tiled_view({1, columns}).store({part, k}, sum_w.expand_dims(0));
  if (db) db->tiled_view({1, columns}).store({part, k}, sum_b.expand_dims(0));
}

Kernel backward_kernel("norm_backward", norm_backward_kernel);
Kernel backward_long_kernel("norm_backward_long", norm_backward_long_kernel);
Kernel columns_kernel("norm_backward_columns", norm_columns_kernel);

}  // namespace

void check_floating(const char* name, const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kHalf && type != at::kBFloat16)
    fail(ErrorKind::type, "'", name, "' is ", c10::toString(type),
         "; it must be Half, BFloat16, Float or Double, convert it with .to()");
}

void check_norm_input(const at::Tensor& input, c10::SymIntArrayRef normalized_shape) {
  check_floating("input", input);
  if (normalized_shape.empty())
    fail(ErrorKind::value,
         "normalized_shape is empty; give the sizes of the last dimensions, to normalise over them");
  const auto sizes = input.sym_sizes();
  if (normalized_shape.size() > sizes.size() ||
      !sizes.slice(sizes.size() - normalized_shape.size()).equals(normalized_shape))
    fail(ErrorKind::value, "normalized_shape is ", normalized_shape, ", but 'input' has sizes ", sizes,
         "; it must be the sizes of the last dimensions");
}

void check_sizes(const char* name, const at::Tensor& parameter, c10::SymIntArrayRef sizes, const char* what) {
  if (!parameter.sym_sizes().equals(sizes))
    fail(ErrorKind::value, "'", name, "' has sizes ", parameter.sym_sizes(), ", but ", what, " ", sizes,
         "; they must be equal");
}

void check_parameters(const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                      const at::Tensor& input, c10::SymIntArrayRef sizes, const char* what) {
  const auto check = [&](const char* name, const at::Tensor& parameter) {
    check_floating(name, parameter);
    check_sizes(name, parameter, sizes, what);
    const at::ScalarType type = parameter.scalar_type(), own = input.scalar_type();
    if (type != own && !(type == at::kFloat && own != at::kDouble))
      fail(ErrorKind::type, "'", name, "' is ", c10::toString(type), " and 'input' ", c10::toString(own),
           "; '", name, "' must have the dtype of 'input', or be Float where that has 16 bits");
  };
  if (weight) check("weight", *weight);
  if (bias) check("bias", *bias);
  if (weight && bias && weight->scalar_type() != bias->scalar_type())
    fail(ErrorKind::type, "'weight' is ", c10::toString(weight->scalar_type()), " and 'bias' ",
         c10::toString(bias->scalar_type()), "; convert one of them");
}

at::Tensor parameter_gradient(bool wanted, const std::optional<at::Tensor>& parameter) {
  return wanted && parameter ? at::empty_like(*parameter, at::MemoryFormat::Contiguous) : at::Tensor();
}

namespace {

c10::SmallVector<c10::SymInt, 5> statistic_sizes(const at::Tensor& input, size_t axes) {
  const c10::SymIntArrayRef whole = input.sym_sizes();
  c10::SmallVector<c10::SymInt, 5> sizes(whole.begin(), whole.end());
  for (size_t i = 0; i < axes; ++i) sizes[sizes.size() - 1 - i] = 1;
  return sizes;
}
at::ScalarType statistic_dtype(const at::Tensor& input, bool wide) {
  return wide ? at::kDouble : compute_dtype(input.scalar_type());
}

}  // namespace

at::Tensor empty_statistics(const at::Tensor& input, size_t axes, bool wide) {
  return result_like(input, statistic_sizes(input, axes), statistic_dtype(input, wide));
}

void check_statistics(const char* name, const at::Tensor& saved, const at::Tensor& input, size_t axes,
                      bool wide) {
  require_agrees(name, saved, statistic_sizes(input, axes), statistic_dtype(input, wide), as_saved);
}

void check_norm_gradient(const char* name, const at::Tensor& grad, const at::Tensor& input) {
  require_agrees(name, grad, input.sym_sizes(), input.scalar_type(), of_result);
}

std::optional<at::Tensor> flat_parameter(const std::optional<at::Tensor>& parameter) {
  return !parameter || parameter->dim() == 1 ? parameter : parameter->reshape({-1});
}

namespace {

// The rows that a GPU's block takes in an iteration: 16 KB of the input, or a row of twice that, in
// registers next to their sums.
struct GpuRows {
  RowTile tile;
  int together;    // rows
  bool wide;       // with a mean it has too few registers for interleaved blocks
  int64_t blocks;  // as many as run at once, 16 warps on each multiprocessor
};
GpuRows gpu_rows(RowTile tile, int axis, int64_t element_bytes) {
  const int elements = static_cast<int>(tuning::norm_block_bytes / element_bytes);
  GpuRows rows{tile, 1, tile.columns > elements, 0};
  if (axis && tile.holds_row()) {
    if (tile.columns > 2 * elements)
      rows.tile = {1, tuning::long_row, RowFit::looped};
    else if (tile.rows == 1)
      rows.together = std::clamp(elements / tile.columns, 1, 4);
  }
  rows.blocks = std::max<int64_t>(
      tuning::multiprocessors,
      tuning::two_blocks_each * elements / (int64_t{rows.tile.rows} * rows.together * rows.tile.columns));
  return rows;
}

}  // namespace

void norm_backward(const NormBackward& given) {
  NormBackward call = given;
  if (is_recorded()) {
    const RowStatistics again = statistics_again(call.axes, call.input, {call.mean, call.rstd});
    call.mean = again.mean, call.rstd = again.rstd;
  }
  const std::optional<at::Tensor> weight = flat_parameter(call.weight);
  const auto vector = weight ? std::optional(to_array_argument(*weight)) : std::nullopt;
  // Without grad_input the views have the input instead of it, and only read it.
  TensorPointers tensors{call.grad_input ? &*call.grad_input : &call.input, &call.grad_out, &call.input};
  TensorPointers statistics{&call.rstd};
  if (call.grad_input && call.grad_added) tensors.push_back(&*call.grad_added);
  const size_t first = tensors.size();  // of the statistics
  if (call.mean) statistics.push_back(&*call.mean);
  at::Tensor parts_w, parts_b;
  on_norm_rows(
      call.axes, tensors, statistics,
      [&](Rows& views) {
        RowTile tile = row_tile(views);
        const int axis = views.transposed() ? 0 : 1;
        // Derivatives need twice the registers.
        const int64_t bytes = static_cast<int64_t>(call.input.element_size()) * (is_recorded() ? 2 : 1);
        const GpuRows on_gpu = gpu_rows(tile, axis, bytes);
        if (views.on_gpu()) tile = on_gpu.tile;
        const int together = views.on_gpu() ? on_gpu.together : 1;
        const bool interleaved = views.on_gpu() && !(call.mean && on_gpu.wide);
        const auto options = call.input.options().dtype(call.rstd.scalar_type());
        RowTile sums = tile;
        if (views.on_gpu() && axis) sums.columns = std::min(sums.columns, 4096);
        if (!tile.holds_row() && !views.on_gpu())
          sums = axis ? RowTile{16, 1024, tile.fit} : RowTile{256, 64, tile.fit};
        const Parts split =
            parts(ceil_div(views.rows(), sums.rows * together), views.slices() * views.count(),
                  views.on_gpu() ? on_gpu.blocks : tuning::cpu_norm_parts);
        const int64_t blocks = views.slices() * split.blocks;
        if (call.grad_weight) parts_w = at::empty({blocks * views.count(), views.columns()}, options);
        if (call.grad_bias) parts_b = at::empty({blocks * views.count(), views.columns()}, options);
        views.each([&](int64_t i) {
          const auto mean = call.mean ? std::optional(views.view(first + 1)) : std::nullopt;
          const auto added = first > 3 ? std::optional(views.view(3)) : std::nullopt;
          const auto dx = call.grad_input ? std::optional(views.view(0)) : std::nullopt;
          const auto own = [&](const at::Tensor& all) {
            if (!all.defined()) return std::optional<at::Tensor>();
            return std::optional(views.count() == 1 ? all : all.narrow(0, i * blocks, blocks));
          };
          std::optional<at::Tensor> dw = own(parts_w), db = own(parts_b);
          const BackwardOf<ArrayArgument> of{views.view(1), views.view(2), added,
                                             vector,        mean,          views.view(first)};
          const RowTileShape shape{tile.rows, tile.columns, axis};
          if (tile.holds_row()) {
            backward_kernel.launch(
                {split.blocks, views.slices()},
                {.of = as_launched(of),
                 .dx = dx,
                 .dw = dw,
                 .db = db,
                 .tiles = interleaved ? std::nullopt : std::optional(static_cast<int>(split.tiles)),
                 .late = views.on_gpu() && tile.rows > 1,
                 .together = together,
                 .shape = shape});
            return;
          }
          if (dx)
            backward_long_kernel.launch({ceil_div(views.rows(), tile.rows), views.slices()}, of, *dx, shape);
          if (dw || db) {
            const BackwardOf<ArrayArgument> sums_of{of.g, of.x, {}, {}, mean, of.rstd};
            columns_kernel.launch({ceil_div(views.columns(), sums.columns), split.blocks, views.slices()},
                                  sums_of, dw, db, static_cast<int>(split.tiles),
                                  RowTileShape{sums.rows, sums.columns, axis});
          }
        });
      },
      call.grad_input.has_value());
  std::vector<PartialSum> sums;
  const auto add = [&](const at::Tensor& parts, const std::optional<at::Tensor>& result) {
    // No rows: no parts, and the sums are 0.
    if (result)
      sums.push_back(
          {parts.defined() ? parts : at::empty({0, result->numel()}, call.rstd.options()), *result});
  };
  add(parts_w, call.grad_weight);
  add(parts_b, call.grad_bias);
  sum_partials(std::move(sums));
}

}  // namespace tile
