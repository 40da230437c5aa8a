// The kernels of the losses: rows of logits are read once, forward and backward.
#include "rows_of_logits.h"

#include <limits>

#include "../common/arguments.h"
#include "../common/derivation.h"
#include "../common/logsumexp.h"
#include "../common/partial_sums.h"
#include "../common/tuning.h"
#include "../norms/norm.h"
#include "tile/own_gradient.h"

namespace tile {
namespace {

constexpr double log2_e = 1.4426950408889634, nan = std::numeric_limits<double>::quiet_NaN();

// One value a row, as a column of the tile (a row where transposed).
struct TargetRows {
  Tile index, target, ignored, inside;

  TargetRows(const Array& x, const RowView& targets, const Tile& row, const Tile& ignore_index,
             const Tile& classes, int rows, int axis)
      : index((row * rows + arange(rows)).expand_dims(axis)),
        target(targets.load(row, 0).astype(i64)),
        ignored(target == ignore_index),
        inside((target >= 0) & (target < classes)) {
    if (rows > 1) ignored = ignored | (index >= x.dim(1));
  }
};

// log(sum(exp(x))) = top + log(total), as far as a row is known; `picked` is the logit of the target, `sum`
// that of weight * (logit - center).
struct Known {
  Tile top, total, picked, sum, center;
};

// Numbers of a loss that both kernels take.
template <class Tile>
struct LossNumbers {
  Tile ignore_index, label_smoothing, z_loss;
  Tile first, classes;  // the first class of these logits, and all there are
  bool smooth;          // label_smoothing is not 0
};

template <class Array, class Tile>
struct LossForward {
  Array x, target;
  std::optional<Array> weight;       // [classes]
  std::optional<Array> weight_sum;   // [1]: of all classes
  std::optional<Array> state;        // [row_state, n]: what is known of rows whose logits come in parts
  std::optional<Array> lse, rest;    // as RowLse
  std::optional<Array> loss, parts;  // of each row; of each block, [kinds, blocks]
  LossNumbers<Tile> numbers;
  int kinds;                  // rows of parts
  std::optional<Tile> tiles;  // row tiles of a block
  int rows, columns;          // of a tile
  int group;  // of so many neighbours, which lie in one thread, a sum, and where rows are looped a maximum,
              // is computed separately; 0: none
  bool holds_row;  // a tile has whole rows
  int axis;        // of columns in a tile
};

Known known_rows(const LossForward<Array, Tile>& of, const RowView& in, const Tile& row,
                 const TargetRows& rows_of, const Tile& label, DType compute) {
  const auto& [x, target, weight, weight_sum, state, lse, rest, loss, parts, numbers, kinds, tiles, rows,
               columns, group, holds_row, axis] = of;
  const Tile& first = numbers.first;
  const bool smooth = numbers.smooth;
  const Shape one = axis ? Shape{rows, 1} : Shape{1, rows};
  // The product rounds: of 16-bit logits it does not show.
  const auto exponential = [&](const Tile& v) {
    return info(x.dtype()).bytes == 2 ? exp2(v * log2_e) : exp(v);
  };
  Array slice = x[{bid(1)}];
  Known known{full(one, -inf, compute), zeros(one, compute),
              gather(slice, {rows_of.index, label}).astype(compute), zeros(one, compute),
              zeros(one, compute)};
  const auto old = [&](int k) { return state->tiled_view({1, rows}).load({k, row}).reshape(one); };
  if (smooth) {
    known.center = gather(slice, {rows_of.index, full(one, 0, i32)}).astype(compute);
    known.center = where(abs(known.center) < inf, known.center, 0);
    if (state) known.center = where(first == 0, known.center, old(4));
  }
  const auto smoothed = [&](const Tile& v, const Operand& k) {
    Tile extent = x.dim(2), column = arange(columns) + k * columns;
    Tile in_row = (column < extent).expand_dims(1 - axis);
    Tile part = where(in_row, v - known.center, 0);
    if (weight) part *= row_vector(*weight, k, columns, axis, compute);
    return part.sum(axis, true);
  };
  const auto load = [&](const Operand& k) {
    Tile v = in.load(row, k, -inf).astype(compute);
    if (smooth) known.sum += smoothed(v, k);
    return v;
  };
  if (holds_row) {
    Tile v = load(0);
    known.top = detach(v.max(axis, true));
    Tile each = exponential(v - finite_shift(known.top));
    known.total =
        group ? each.reshape({rows, columns / group, group}).sum(2).sum(1, true) : each.sum(axis, true);
  } else {
    const LogSumExp sum =
        looped_logsumexp(in.steps(), rows, columns, axis, group, compute, load, exponential);
    known.top = sum.top;
    known.total = sum.total;
  }
  if (state) {
    const auto before = [&](int k, double none) { return where(first == 0, none, old(k)); };
    Tile top = before(0, -inf), all = detach(max(known.top, top)), shift = finite_shift(all);
    known.total = known.total * exponential(known.top - shift) + before(1, 0) * exponential(top - shift);
    known.top = all;
    known.picked = where((label >= 0) & (label < x.dim(2).astype(i64)), known.picked, before(2, 0));
    known.sum += before(3, 0);
    int k = 0;
    for (const Tile& value : {known.top, known.total, known.picked, known.sum, known.center})
      state->tiled_view({1, rows}).store({k++, row}, value.reshape({1, rows}));
  }
  return known;
}

void loss_kernel(const LossForward<Array, Tile>& of) {
  const auto& [x, target, weight, weight_sum, state, lse, rest, loss, parts, numbers, kinds, tiles, rows,
               columns, group, holds_row, axis] = of;
  const auto& [ignore_index, label_smoothing, z_loss, first, classes, smooth] = numbers;
  const DType compute = compute_dtype(x.dtype());
  RowView in(x, bid(1), rows, columns, axis), targets(target, bid(1), rows, 1, axis);
  Tile sum = zeros({}, compute), divisor = sum, sum_z = sum, count = sum;
  each_row_tile(x, tiles, rows, [&](const Tile& row) {
    const TargetRows at(x, targets, row, ignore_index, classes, rows, axis);
    const Known known = known_rows(of, in, row, at, at.target - first, compute);
    Tile log_total = log(known.total), row_lse = known.top + log_total;
    Tile value = known.top - known.picked + log_total;
    Tile own = where(at.ignored, full({}, 0, compute), 1);
    if (weight) {
      Tile of_class = gather(*weight, {at.target}).astype(compute);
      own = own * of_class;
      value = value * of_class;
    }
    if (smooth) {
      Tile all = weight_sum ? weight_sum->tiled_view({1}).load({0}).reshape(Shape{}).astype(compute)
                            : classes.astype(compute);
      Tile smoothing = label_smoothing.astype(compute);
      Tile even = all * (known.top - known.center + log_total) - known.sum;
      value = value * (1 - smoothing) + even * (smoothing / classes.astype(compute));
    }
    Tile z = row_lse * z_loss.astype(compute) * row_lse;  // without z_loss 0, whatever the square
    const bool apart = parts && weight && kinds > 2;      // a sum has no divisors, so it is one part
    if (!apart) value += z;
    const auto counted = [&](const Tile& v) { return where(at.ignored, 0, where(at.inside, v, nan)); };
    if (lse) RowView(*lse, bid(1), rows, 1, axis).store(row, 0, row_lse);
    if (rest) RowView(*rest, bid(1), rows, 1, axis).store(row, 0, known.top - row_lse + log_total);
    if (loss) RowView(*loss, bid(1), rows, 1, axis).store(row, 0, counted(value));
    if (!parts) return;
    sum += counted(value).sum();
    divisor += own.sum();
    if (apart) {
      sum_z += counted(z).sum();
      count += where(at.ignored, full({}, 0, compute), 1).sum();
    }
  });
  if (!parts) return;
  int kind = 0;
  Tile part = bid(1) * num_blocks(0) + bid(0);
  for (const Tile& value : {sum, divisor, sum_z, count}) {
    if (kind == kinds) break;
    parts->tiled_view({1, 1}).store({kind++, part}, value.reshape({1, 1}));
  }
}
Kernel loss_of("cross_entropy", loss_kernel);

// With p = exp(logit - lse), w the weight of the target and u = smoothing / classes, of a row
// (1 - smoothing) w s (p - [target]) + u s (sum of weights p - weight) + 2 z lse s_z p.
template <class Array, class Tile>
struct LossBackward {
  Array grad, x, target, lse;
  std::optional<Array> rest;
  std::optional<Array> dx;  // without it the gradient replaces x
  std::optional<Array> weight, weight_sum, divisors;
  LossNumbers<Tile> numbers;
  std::optional<Tile> tiles;  // row tiles of a block
  int rows, columns, axis;
};
void loss_backward_kernel(const LossBackward<Array, Tile>& of) {
  const auto& [grad, x, target, lse, rest, dx, weight, weight_sum, divisors, numbers, tiles, rows, columns,
               axis] = of;
  const auto& [ignore_index, label_smoothing, z_loss, first, classes, smooth] = numbers;
  const DType compute = compute_dtype(x.dtype());
  const auto values = [&](const Array& array) { return RowView(array, bid(1), rows, 1, axis); };
  RowView in(x, bid(1), rows, columns, axis), out(dx ? *dx : x, bid(1), rows, columns, axis);
  Tile k = bid(2), column = (arange(columns) + k * columns).expand_dims(1 - axis);
  const auto number = [&](const Array& array, int i) {
    return array.tiled_view({1}).load({i}).reshape(Shape{}).astype(compute);
  };
  each_row_tile(x, tiles, rows, [&](const Tile& row) {
    const TargetRows at(x, values(target), row, ignore_index, classes, rows, axis);
    Tile g = values(grad).load(row, 0).astype(compute), row_lse = values(lse).load(row, 0).astype(compute);
    Tile scale = divisors ? g / number(*divisors, 0) : g, z_scale = divisors && weight
                                                                        ? g / number(*divisors, 1)
                                                                    : divisors ? scale
                                                                               : g;
    const auto counted = [&](const Tile& v) { return where(at.ignored, 0, where(at.inside, v, nan)); };
    Tile picked = scale, smoothing = label_smoothing.astype(compute), count = classes.astype(compute);
    if (weight) picked = picked * gather(*weight, {at.target}).astype(compute);
    if (smooth) picked = picked * (1 - smoothing);
    picked = counted(picked);
    Tile of_z = counted(row_lse * z_scale * (2 * z_loss.astype(compute)));
    // An ignored row has no gradient, whatever its logits.
    row_lse = where(at.ignored, inf, row_lse);
    Tile label = where(at.inside, at.target - first, -1).astype(i32);
    Tile of_lse = in.load(row, k).astype(compute) - row_lse;
    if (rest) of_lse -= where(abs(row_lse) < inf, values(*rest).load(row, 0), 0);
    Tile p = exp(of_lse);
    // Terms that cancel meet first.
    Tile v = p * picked - where(column == label, picked, 0);
    if (smooth) {
      Tile even = counted(scale * (smoothing / count));
      Tile all = even * (weight_sum ? number(*weight_sum, 0) : count);
      v += p * all - (weight ? even * row_vector(*weight, k, columns, axis, compute) : even);
    }
    out.store(row, k, v + p * of_z);
  });
}
Kernel loss_backward_of("cross_entropy_backward", loss_backward_kernel);

// Counts the targets that are not ignored: one block.
void count_kernel(Array target, Array divisors, Tile ignore_index, int columns) {
  View in = target.tiled_view({columns});
  Tile sum = zeros({columns}, f64), place = arange(columns);
  for (Tile k : range(in.num_tiles(0))) {
    Tile counts = (in.load({k}).astype(i64) != ignore_index) & (place + k * columns < target.dim(0));
    sum += where(counts, full({columns}, 1, f64), 0);
  }
  Tile count = sum.sum().reshape({1});
  for (int i : {0, 1}) divisors.tiled_view({1}).store({i}, count);
}
Kernel count_of("cross_entropy_count", count_kernel);

// Adds up the parts: one block.
void loss_sum_kernel(Array parts, Array out, std::optional<Array> divisors, bool mean, bool weighted,
                     int columns) {
  View in = parts.tiled_view({1, columns});
  std::vector<Tile> sums;
  for (int kind = 0; kind < (!mean ? 1 : weighted ? 4 : 2); ++kind) sums.push_back(zeros({columns}, f64));
  for (Tile k : range(in.num_tiles(1)))
    for (size_t kind = 0; kind < sums.size(); ++kind)
      sums[kind] += in.load({static_cast<int>(kind), k}).astype(f64).reshape({columns});
  for (Tile& sum : sums) sum = sum.sum();
  Tile result = sums[0];
  if (mean) result = result / sums[1];
  if (mean && weighted) result += sums[2] / sums[3];
  out.tiled_view({1}).store({0}, result.reshape({1}));
  if (!divisors) return;
  divisors->tiled_view({1}).store({0}, sums[1].reshape({1}));
  divisors->tiled_view({1}).store({1}, (weighted ? sums[3] : sums[1]).reshape({1}));
}
Kernel loss_sum_of("cross_entropy_sum", loss_sum_kernel);

auto numbers_of(const Logits& of, const LossOptions& options) {
  return LossNumbers<ScalarArgument>{
      scalar_argument(options.ignore_index), scalar_argument(options.label_smoothing),
      scalar_argument(options.z_loss),       scalar_argument(of.first),
      scalar_argument(of.classes),           options.label_smoothing != 0};
}

// One value a row as logits [n, 1, ...]; of a scalar the same for all.
ArrayArgument row_values(const at::Tensor& values, const at::Tensor& logits) {
  ArrayArgument array = to_array_argument(logits);
  const ArrayArgument own = to_array_argument(values);
  array.data = own.data;
  array.dtype = own.dtype;
  for (int axis = 0; axis < array.rank; ++axis) {
    const int from = axis == 0 ? 0 : axis - 1;
    array.strides[axis] = values.dim() == 0 ? 0 : own.strides[from];
  }
  array.sizes[1] = 1;
  array.strides[1] = 1;
  return array;
}

// Tiles of so many columns at most, on a GPU: the next ones load while these are computed.
RowTile loss_tile(const Rows& rows, int most_columns) {
  RowTile tile = row_tile(rows);
  if (rows.on_gpu() && !rows.transposed() && rows.columns() > tuning::long_row)
    tile = {1, most_columns, RowFit::looped};
  return tile;
}

}  // namespace

LossReduction parse_reduction(const std::string& reduction) {
  if (reduction == "none") return LossReduction::none;
  if (reduction == "mean") return LossReduction::mean;
  if (reduction == "sum") return LossReduction::sum;
  fail(ErrorKind::value, "reduction is \"", reduction, "\"; it must be \"none\", \"mean\" or \"sum\"");
}

void check_loss_options(const LossRequest& request) {
  const double label_smoothing = request.label_smoothing;
  parse_reduction(request.reduction);
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    fail(ErrorKind::value, "label_smoothing is ", label_smoothing, "; it must be from 0 to 1");
}

void check_target(const at::Tensor& target, c10::SymIntArrayRef sizes, const char* sizes_of) {
  if (at::isFloatingType(target.scalar_type()))
    fail(ErrorKind::unsupported, "target is ", dtype_name(target.scalar_type()),
         ", so probabilities of classes, which are not implemented; give class indices, int64 or int32");
  require_index_dtype("target", target);
  if (!target.sym_sizes().equals(sizes))
    fail(ErrorKind::value, "target has shape ", target.sym_sizes(), "; it must be ", sizes, ", that of ",
         sizes_of);
}

namespace {
std::vector<c10::SymInt> lse_sizes(at::ScalarType input, const at::Tensor& target) {
  std::vector<c10::SymInt> sizes = target.sym_sizes().vec();
  if (input == at::kFloat) sizes.emplace_back(2);
  return sizes;
}
}  // namespace

at::Tensor empty_lse(const at::Tensor& input, const at::Tensor& target) {
  const at::ScalarType dtype = input.scalar_type();
  return at::empty_symint(lse_sizes(dtype, target), input.options().dtype(compute_dtype(dtype)));
}

RowLse row_lse(const std::optional<at::Tensor>& saved, at::ScalarType input) {
  if (!saved || input != at::kFloat) return {saved};
  return {saved->select(-1, 0), saved->select(-1, 1)};
}

void check_loss_gradient(const at::Tensor& grad_out, at::ScalarType dtype, at::ScalarType input,
                         const at::Tensor& target, const SavedOfLoss& saved, const std::string& reduction) {
  const auto& [lse, divisors] = saved;
  require_agrees("grad_out", grad_out, reduction == "none" ? target.sym_sizes() : c10::SymIntArrayRef(),
                 dtype, of_result);
  const at::ScalarType compute = compute_dtype(dtype);
  require_agrees("lse", lse, lse_sizes(input, target), compute, as_saved);
  const bool mean = reduction == "mean";
  if (mean != divisors.has_value())
    fail(ErrorKind::value, "divisors is ", mean ? "not given" : "given", " and reduction is \"", reduction,
         "\"; ", mean ? "pass what the forward saved" : "pass None");
  const c10::SymInt two[] = {2};
  if (divisors) require_agrees("divisors", *divisors, two, compute, as_saved);
}

void check_classes(const at::Tensor& target, int64_t classes, int64_t ignore_index) {
  require_indices("target", target, {classes, "there are", "classes", "ignore_index", ignore_index});
}

std::optional<at::Tensor> sum_of_weights(const std::optional<at::Tensor>& weight,
                                         const LossOptions& options) {
  if (!weight || options.label_smoothing == 0) return std::nullopt;
  const at::Tensor sum = at::empty({1}, weight->options().dtype(compute_dtype(weight->scalar_type())));
  sum_partials({{weight->contiguous().view({-1, 1}), sum}});
  return sum;
}

void loss_forward(const Logits& of, const LossOptions& options, const std::optional<at::Tensor>& state,
                  const RowLse& saved, const std::optional<at::Tensor>& loss, LossParts* parts,
                  LossReduction reduction) {
  const at::Tensor& x = of.logits;
  c10::SmallVector<ArrayArgument, 5> arrays{to_array_argument(x), row_values(of.target, x)};
  const std::optional<at::Tensor>* const results[] = {&saved.lse, &saved.rest, &loss};
  for (const auto* values : results)
    if (*values) arrays.push_back(row_values(**values, x));
  Rows rows(arrays, 1u << 1);
  const int64_t kinds = loss_kinds(reduction, of.weight.has_value());
  const auto room = [&](int64_t blocks) {
    if (parts && !parts->sums.defined())
      parts->sums = at::empty({kinds, blocks}, x.options().dtype(compute_dtype(x.scalar_type())));
  };
  if (rows.empty()) return room(0);
  const RowTile tile = loss_tile(rows, tuning::loss_columns);
  const RowBlocks blocks = row_blocks(rows, tile);
  const int64_t each = blocks.grid.x * blocks.grid.y;
  room(each * rows.count());
  const int group = !rows.on_gpu() || rows.transposed() ? 0 : static_cast<int>(16 / x.element_size());
  const auto numbers = numbers_of(of, options);
  rows.each([&](int64_t) {
    std::optional<at::Tensor> own;
    if (parts) {
      own = parts->sums.narrow(1, parts->used, each);
      parts->used += each;
    }
    size_t next = 2;
    const auto view = [&](const std::optional<at::Tensor>& values) {
      return values ? std::optional(rows.view(next++)) : std::nullopt;
    };
    const auto to_lse = view(saved.lse), to_rest = view(saved.rest), to_loss = view(loss);
    loss_of.launch(blocks.grid, {.x = rows.view(0),
                                 .target = rows.view(1),
                                 .weight = of.weight,
                                 .weight_sum = of.weight_sum,
                                 .state = state,
                                 .lse = to_lse,
                                 .rest = to_rest,
                                 .loss = to_loss,
                                 .parts = own,
                                 .numbers = as_launched(numbers),
                                 .kinds = static_cast<int>(kinds),
                                 .tiles = blocks.tiles,
                                 .rows = tile.rows,
                                 .columns = tile.columns,
                                 .group = group,
                                 .holds_row = tile.holds_row(),
                                 .axis = rows.transposed() ? 0 : 1});
  });
}

namespace {

// The gradient of lse, which is exp(logit - lse) times that of the row.
void lse_gradient_kernel(Array grad, Array x, Array lse, std::optional<Array> rest, Array dx,
                         std::optional<Tile> tiles, int rows, int columns, int axis) {
  const DType compute = compute_dtype(x.dtype());
  const auto values = [&](const Array& array) { return RowView(array, bid(1), rows, 1, axis); };
  RowView in(x, bid(1), rows, columns, axis), out(dx, bid(1), rows, columns, axis);
  each_row_tile(x, tiles, rows, [&](const Tile& row) {
    Tile g = values(grad).load(row, 0).astype(compute), row_lse = values(lse).load(row, 0).astype(compute);
    Tile of_lse = in.load(row, bid(2)).astype(compute) - row_lse;
    if (rest) of_lse -= where(abs(row_lse) < inf, values(*rest).load(row, 0), 0);
    out.store(row, bid(2), where(g == 0, 0, exp(of_lse) * g));
  });
}
Kernel lse_gradient_of("cross_entropy_lse_gradient", lse_gradient_kernel);

at::Tensor lse_gradient(const at::Tensor& grad, const at::Tensor& x, const RowLse& saved) {
  const at::Tensor dx = at::empty(x.sizes(), x.options());
  c10::SmallVector<ArrayArgument, 5> arrays{to_array_argument(dx), to_array_argument(x),
                                            row_values(*saved.lse, x), row_values(grad, x)};
  if (saved.rest) arrays.push_back(row_values(*saved.rest, x));
  Rows rows(arrays, 1u << 1);
  if (rows.empty()) return dx;
  const RowTile tile = loss_tile(rows, tuning::loss_backward_columns);
  const RowBlocks blocks = row_blocks(rows, tile);
  rows.each([&](int64_t) {
    lse_gradient_of.launch({blocks.grid.x, blocks.grid.y, ceil_div(rows.columns(), tile.columns)},
                           rows.view(3), rows.view(1), rows.view(2),
                           saved.rest ? std::optional(rows.view(4)) : std::nullopt, rows.view(0),
                           blocks.tiles, tile.rows, tile.columns, rows.transposed() ? 0 : 1);
  });
  return dx;
}

// The saved numbers as a step of a record, in which they depend on the logits.
RowLse lse_again(const at::Tensor& x, const RowLse& saved) {
  RowLse again = saved;
  again.lse = at::empty(saved.lse->sizes(), saved.lse->options());
  record_step({"lse_again",
               {x},
               *again.lse,
               [to = *again.lse, from = *saved.lse] { at::Tensor(to).copy_(from); },
               [x, saved](const at::Tensor& incoming, const std::vector<bool>&) {
                 return std::vector<at::Tensor>{lse_gradient(incoming, x, saved)};
               }});
  return again;
}

}  // namespace

void loss_backward(const Logits& of, const LossOptions& options, const at::Tensor& grad_out,
                   const RowLse& given, const std::optional<at::Tensor>& divisors,
                   const at::Tensor& grad_logits) {
  const at::Tensor& x = of.logits;
  const RowLse saved = is_recorded() ? lse_again(x, given) : given;
  const bool in_place = grad_logits.is_same(x);
  c10::SmallVector<ArrayArgument, 6> arrays{to_array_argument(grad_logits), to_array_argument(x),
                                            row_values(of.target, x), row_values(*saved.lse, x),
                                            row_values(grad_out, x)};
  if (saved.rest) arrays.push_back(row_values(*saved.rest, x));
  Rows rows(arrays, 1u << 1);
  if (rows.empty()) return;
  const RowTile tile = loss_tile(rows, tuning::loss_backward_columns);
  const RowBlocks blocks = row_blocks(rows, tile);
  const Grid grid{blocks.grid.x, blocks.grid.y, ceil_div(rows.columns(), tile.columns)};
  const auto numbers = numbers_of(of, options);
  rows.each([&](int64_t) {
    loss_backward_of.launch(grid, {.grad = rows.view(4),
                                   .x = rows.view(1),
                                   .target = rows.view(2),
                                   .lse = rows.view(3),
                                   .rest = saved.rest ? std::optional(rows.view(5)) : std::nullopt,
                                   .dx = in_place ? std::nullopt : std::optional(rows.view(0)),
                                   .weight = of.weight,
                                   .weight_sum = of.weight_sum,
                                   .divisors = divisors,
                                   .numbers = as_launched(numbers),
                                   .tiles = blocks.tiles,
                                   .rows = tile.rows,
                                   .columns = tile.columns,
                                   .axis = rows.transposed() ? 0 : 1});
  });
}

void count_targets(const at::Tensor& target, int64_t ignore_index, const at::Tensor& divisors) {
  count_of.launch({1}, target, divisors, ignore_index, 2048);
}

void add_up_losses(const LossParts& parts, const at::Tensor& out, const std::optional<at::Tensor>& divisors) {
  const int64_t kinds = parts.sums.size(0);
  loss_sum_of.launch({1}, parts.sums, strided(out, {1}, {1}), divisors, kinds > 1, kinds > 2, 2048);
}

}  // namespace tile
