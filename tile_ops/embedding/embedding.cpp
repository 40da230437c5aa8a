// tile::embedding: rows of a table at indices, and the gradient of the table: added up in the order of the
// indices, on a GPU in parts of many, in one order whatever the machine.

#include <algorithm>
#include <limits>

#include "../common/arguments.h"
#include "../common/partial_sums.h"
#include "../common/tuning.h"
#include "tile/rows.h"

namespace {

using at::Tensor;
using std::optional;
using namespace tile;  // NOLINT: an operator's file is written in the kernel language

// On a GPU an index out of range gives NaN.
void embedding_kernel(Array weight, Array indices, Array out, int rows, int columns) {
  Tile i = bid(0), j = bid(1);
  Tile at = indices.tiled_view({rows}).load({i});
  out.tiled_view({rows, columns})
      .store({i, j},
             gather_rows(weight, 0, at, {j * columns}, {columns}, std::numeric_limits<double>::quiet_NaN()));
}
Kernel embedding_of("embedding", embedding_kernel);

// The same, and 0 where the index is `padding`.
void embedding_without_padding_kernel(Array weight, Array indices, Array out, Tile padding, int rows,
                                      int columns) {
  Tile i = bid(0), j = bid(1);
  Tile at = indices.tiled_view({rows}).load({i});
  Tile loaded =
      gather_rows(weight, 0, at, {j * columns}, {columns}, std::numeric_limits<double>::quiet_NaN());
  out.tiled_view({rows, columns})
      .store({i, j}, where((at.astype(i64) == padding).expand_dims(1), 0.0, loaded));
}
Kernel embedding_without_padding("embedding_without_padding", embedding_without_padding_kernel);

// The indices of each bin, rows [b * bin, (b + 1) * bin) of the table.
template <class Array>
struct Bins {
  Array positions, at;  // the positions of a bin's indices in order, and the rows they name
  Array begin, end;     // of each bin in these
};

// Block b collects the indices of its bin. They begin in `positions` and `at` after as many entries as there
// are smaller indices, so that no block waits for another.
void bins_kernel(Array indices, const Bins<Array>& bins, Tile bin, Tile padding, int elements) {
  const auto& [positions, at, begin, end] = bins;
  hint_threads(1);  // registers: an index is 64 bits wide
  View tiles = indices.tiled_view({elements});
  Tile low = bid(0).astype(i64) * bin, high = low + bin;
  Tile smaller = zeros({elements}, i32);
  const auto inside = [&](const Tile& k) { return arange(elements) + k * elements < indices.dim(0); };
  for (Tile k : range(tiles.num_tiles(0)))
    smaller += where(inside(k) & (tiles.load({k}).astype(i64) < low), full({elements}, 1, i32), 0);
  Tile first = smaller.sum(), next = first;
  for (Tile k : range(tiles.num_tiles(0))) {
    Tile index = tiles.load({k}).astype(i64);
    Tile own = inside(k) & (index >= low) & (index < high) & (index != padding);
    when(own.any(), [&] {
      Tile count = where(own, full({elements}, 1, i32), 0), slot = next + count.cumsum(0) - 1;
      scatter(positions, {slot}, arange(elements) + k * elements, own);
      scatter(at, {slot}, index.astype(i32), own);
      next += count.sum();
    });
  }
  begin.tiled_view({1}).store({bid(0)}, first.reshape({1}));
  end.tiled_view({1}).store({bid(0)}, next.reshape({1}));
}
Kernel bins_of("embedding_bins", bins_kernel);

Tile number(const Array& array, const Tile& index) { return gather(array, {index}); }

// Sums of rows, some columns, each a tile.
std::vector<Tile> zero_rows(int rows, int columns, DType dtype) {
  std::vector<Tile> sums;
  for (int r = 0; r < rows; ++r) sums.push_back(zeros({1, columns}, dtype));
  return sums;
}
void store_rows(const View& to, const std::vector<Tile>& sums, const Tile& low, const Tile& j) {
  for (size_t r = 0; r < sums.size(); ++r) to.store({low + static_cast<int>(r), j}, sums[r]);
}

// Adds rows of grad_out, some columns, to sums of as many rows of the gradient, each a tile: the entries k of
// bins in [start, stop) that name row low or one of those after it, in order; `together` of them load at
// once.
void add_named(const Array& grad, const Bins<Array>& bins, const Tile& start, const Tile& stop,
               const Tile& low, const Tile& j, int together, std::vector<Tile>& sums) {
  const auto& [positions, at, begin, end] = bins;
  const int rows = static_cast<int>(sums.size());
  const DType compute = sums[0].dtype();
  View from = grad.tiled_view(sums[0].shape());
  for (Tile k : range(start, stop, together)) {
    std::vector<Tile> own;
    Tile any = full({}, false, boolean);
    for (int t = 0; t < together; ++t) {
      Tile one = number(at, k + t) - low;
      Tile mine = (k + t < stop) & (one >= 0) & (one < rows);
      own.push_back(where(mine, one, -1));
      any = any | mine;
    }
    when(any, [&] {
      std::vector<Tile> values;  // nothing is read past the last one
      for (int t = 0; t < together; ++t) {
        Tile position = where(own[t] >= 0, number(positions, k + t), -1);
        values.push_back(from.load({position, j}).astype(compute));
      }
      for (int t = 0; t < together; ++t)
        for (int r = 0; r < rows; ++r) sums[r] = where(own[t] == r, sums[r] + values[t], sums[r]);
    });
  }
}

// Long bins have parts of so many entries, of which part p begins with entry p * each. A bin's entries before
// the first part that begins in it are no part.
template <class Array, class Integer>
struct Parted {
  Array sums;  // [parts, rows of a bin, columns]
  Integer each;
};
Tile is_long(const Tile& begin, const Tile& end, const Tile& each) { return end - begin >= each * 2; }

// The bin in which an entry is, or one that begins after it.
Tile bin_of(const Bins<Array>& bins, const Tile& entry) {
  constexpr int elements = 1024;
  Tile count = bins.end.dim(0), b = 0;
  for (Tile k : range(cdiv(count, elements))) {
    Tile before =
        (bins.end.tiled_view({elements}).load({k}) <= entry) & (arange(elements) + k * elements < count);
    b += where(before, full({elements}, 1, i32), 0).sum();
  }
  return b;
}

// Block (p, g, j): sums of part p for `rows` rows of its bin, some columns, if it is in a long one.
void embedding_parts_of_bins_kernel(Array grad, const Bins<Array>& bins, const Parted<Array, Tile>& parted,
                                    Tile bin, int together, int rows, int columns) {
  Tile first = bid(0) * parted.each, b = bin_of(bins, first);
  Tile begin = number(bins.begin, b), end = number(bins.end, b);  // 0 past the last bin
  when((first >= begin) & is_long(begin, end, parted.each), [&] {
    std::vector<Tile> sums = zero_rows(rows, columns, parted.sums.dtype());
    Tile low = b * bin.astype(i32) + bid(1) * rows;
    add_named(grad, bins, first, min(first + parted.each, end), low, bid(2), together, sums);
    store_rows(parted.sums[{bid(0)}].tiled_view({1, columns}), sums, bid(1) * rows, bid(2));
  });
}
Kernel embedding_parts_of_bins("embedding_parts_of_bins", embedding_parts_of_bins_kernel);

// Block (p, g, j): `rows` rows of the gradient of a long bin whose first part is p: its entries before the
// parts, and the sums of these.
void embedding_long_bins_kernel(Array grad, const Bins<Array>& bins, const Parted<Array, Tile>& parted,
                                Array out, Tile bin, int together, int rows, int columns) {
  Tile first = bid(0) * parted.each, b = bin_of(bins, first);
  Tile begin = number(bins.begin, b), end = number(bins.end, b);
  when((first >= begin) & (first < begin + parted.each) & is_long(begin, end, parted.each), [&] {
    std::vector<Tile> sums = zero_rows(rows, columns, parted.sums.dtype());
    Tile own = bid(1) * rows, low = b * bin.astype(i32) + own;
    add_named(grad, bins, begin, first, low, bid(2), together, sums);
    for (Tile p : range(bid(0), cdiv(end, parted.each))) {
      View part = parted.sums[{p}].tiled_view({1, columns});
      for (int r = 0; r < rows; ++r) sums[static_cast<size_t>(r)] += part.load({own + r, bid(2)});
    }
    store_rows(out.tiled_view({1, columns}), sums, low, bid(2));
  });
}
Kernel embedding_long_bins("embedding_long_bins", embedding_long_bins_kernel);

// Block (i, j): `rows` rows of the gradient, some columns. It adds the rows of grad_out whose indices are its
// own, but not of a long bin.
void embedding_backward_kernel(Array grad, const Bins<Array>& bins, Array out, Tile bin,
                               std::optional<Tile> each, int together, int rows, int columns) {
  Tile i = bid(0), j = bid(1), low = i * rows, b = floordiv(low, bin.astype(i32));
  std::vector<Tile> sums = zero_rows(rows, columns, compute_dtype(out.dtype()));
  Tile start = number(bins.begin, b), stop = number(bins.end, b);
  add_named(grad, bins, start, each ? where(is_long(start, stop, *each), start, stop) : stop, low, j,
            together, sums);
  store_rows(out.tiled_view({1, columns}), sums, low, j);
}
Kernel embedding_backward_of("embedding_backward", embedding_backward_kernel);

// The same of a table whose rows are named often, as those of token types, without bins: block (i, j, p) adds
// up what is named by part p of the indices, `each` of them.
void embedding_backward_parts_kernel(Array grad, Array indices, Array out, Tile padding, Tile each,
                                     int together, int rows, int columns) {
  Tile j = bid(1), low = bid(0) * rows, first = bid(2) * each.astype(i32);
  View from = grad.tiled_view({1, columns});
  std::vector<Tile> sums = zero_rows(rows, columns, out.dtype());
  Tile stop = min(first + each.astype(i32), indices.dim(0).astype(i32));
  for (Tile k : range(first, stop, together)) {
    std::vector<Tile> own, values;
    Tile any = full({}, false, boolean);
    for (int t = 0; t < together; ++t) {
      Tile index = gather(indices, {k + t}).astype(i64), one = index - low.astype(i64);
      Tile mine = (k + t < stop) & (one >= 0) & (one < rows) & (index != padding);
      own.push_back(where(mine, one.astype(i32), -1));
      any = any | mine;
    }
    when(any, [&] {
      for (int t = 0; t < together; ++t)
        values.push_back(from.load({where(own[t] >= 0, k + t, -1), j}).astype(out.dtype()));
      for (int t = 0; t < together; ++t)
        for (int r = 0; r < rows; ++r) sums[r] = where(own[t] == r, sums[r] + values[t], sums[r]);
    });
  }
  store_rows(out[{bid(2)}].tiled_view({1, columns}), sums, low, j);
}
Kernel embedding_backward_parts("embedding_backward_parts", embedding_backward_parts_kernel);

// Links the indices of block b that name the same row, on a CPU: first[row] is the first of them in `at`,
// next[k] the one after the k-th, -1 if there is none. first[row] is -1 if no index of the bin names the row.
void chains_kernel(Array at, Array begin, Array end, Array first, Array next, Tile bin, int elements) {
  Tile b = bid(0), low = b.astype(i64) * bin;
  View cleared = first.slice(0, low, min(low + bin, first.dim(0).astype(i64))).tiled_view({elements});
  for (Tile i : range(cleared.num_tiles(0))) cleared.store({i}, full({elements}, -1, i32));
  Tile from = gather(begin, {b}), to = gather(end, {b});
  for (Tile k : range(from, to)) {
    Tile slot = to - 1 - (k - from), row = gather(at, {slot});
    scatter(next, {slot}, gather(first, {row}));
    scatter(first, {row}, slot);
  }
}
Kernel chains_of("embedding_chains", chains_kernel);

// The same on a CPU: a block clears the rows of its bin and passes over its indices once. Those of a row are
// added up along its chain and stored once.
void embedding_backward_chained_kernel(Array grad, const Bins<Array>& bins, Array first, Array next,
                                       Array out, Tile bin, int rows, int columns) {
  const auto& [positions, at, begin, end] = bins;
  Tile b = bid(0), j = bid(1), low = b.astype(i64) * bin;
  View from = grad.tiled_view({1, columns}), to = out.tiled_view({1, columns}),
       cleared = out.slice(0, low, min(low + bin, out.dim(0).astype(i64))).tiled_view({rows, columns});
  for (Tile i : range(cleared.num_tiles(0))) cleared.store({i, j}, zeros({rows, columns}, out.dtype()));
  for (Tile k : range(number(begin, b), number(end, b))) {
    Tile row = number(at, k);
    when(number(first, row) == k, [&] {
      const auto added = [&](const Tile& link) {
        return from.load({number(positions, link), j}).astype(compute_dtype(out.dtype()));
      };
      Tile link = number(next, k);
      when(
          link < 0,
          [&] {
            to.store({row, j}, added(k));
          },
          [&] {
            Tile sum = added(k);
            while_loop([&] { return link >= 0; },
                       [&] {
                         sum += added(link);
                         link = number(next, link);
                       });
            to.store({row, j}, sum);
          });
    });
  }
}
Kernel embedding_backward_chained("embedding_backward", embedding_backward_chained_kernel);

// As one axis.
Tensor flat(const Tensor& indices) { return indices.reshape({indices.numel()}); }
Tensor rows_of(const Tensor& grad, int64_t columns) {
  return grad.reshape({grad.numel() / std::max<int64_t>(columns, 1), columns});
}

constexpr int together = 4;                      // rows that a block of a GPU loads at once
constexpr int64_t most_sums = int64_t{8} << 20;  // of parts

// The parts of long bins on a GPU, where there may be such bins.
std::optional<Parted<Tensor, int>> parts_of_bins(const Tensor& grads, const Bins<Tensor>& bins, int64_t bin,
                                                 const Tensor& out, int rows, int columns) {
  constexpr int64_t fewest = 256;
  const int64_t count = grads.size(0), width = out.size(1),
                most = std::max<int64_t>(1, most_sums / (bin * width)),
                each = std::max(fewest, ceil_div(count, most));
  if (count < 2 * each) return std::nullopt;
  const int64_t parts = ceil_div(count, each);
  const Parted<Tensor, int> parted{
      at::empty({parts, bin, width}, out.options().dtype(compute_dtype(out.scalar_type()))),
      static_cast<int>(each)};
  embedding_parts_of_bins.launch({parts, bin / rows, ceil_div(width, columns)}, grads, bins, parted, bin,
                                 together, rows, columns);
  return parted;
}

// The gradient of a table on a GPU whose rows are named so often that a block would add up too many.
void add_in_parts(const Tensor& grads, const Tensor& indices, int64_t padding, const Tensor& out, int rows,
                  int columns) {
  constexpr int64_t indices_a_part = 128;
  const int64_t height = out.size(0), width = out.size(1), count = indices.numel();
  const int64_t most = std::max<int64_t>(1, most_sums / (height * width));
  const int64_t each = ceil_div(count, std::min(ceil_div(count, indices_a_part), most));
  const int64_t parts = ceil_div(count, each);
  const Tensor sums =
      at::empty({parts, height, width}, out.options().dtype(compute_dtype(out.scalar_type())));
  embedding_backward_parts.launch({ceil_div(height, rows), ceil_div(width, columns), parts}, grads, indices,
                                  sums, padding, each, together, rows, columns);
  sum_partials({{sums.view({parts, height * width}), out}});
}

// The rows of a table at indices; zeros at `padding`.
void take_rows(const Tensor& table, const Tensor& indices, int64_t padding, const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t count = indices.numel(), width = table.size(1);
  const int elements = table.is_cpu() ? tuning::cpu_tile : tuning::gpu_tile,
            columns = width <= 64    ? 64
                      : width <= 256 ? 256
                                     : 1024,
            rows = elements / columns;
  const Grid grid{ceil_div(count, rows), ceil_div(width, columns)};
  const Tensor all = out.view({count, width});
  if (padding < 0)
    embedding_of.launch(grid, table, flat(indices), all, rows, columns);
  else
    embedding_without_padding.launch(grid, table, flat(indices), all, padding, rows, columns);
}

// The result's, after everything that embedding() demands of its arguments holds.
std::vector<c10::SymInt> checked_sizes(const Tensor& weight, const Tensor& indices, int64_t padding_idx) {
  require_floating("weight", weight);
  if (weight.dim() != 2)
    fail(ErrorKind::value, "weight has shape ", weight.sym_sizes(), "; it must be [rows, columns]");
  require_index_dtype("indices", indices);
  if (padding_idx < -1 || padding_idx >= weight.sym_size(0))
    fail(ErrorKind::value, "padding_idx is ", padding_idx, ", but weight has ", weight.sym_size(0),
         " rows; give one of them, or -1 for none");
  std::vector<c10::SymInt> sizes = indices.sym_sizes().vec();
  sizes.push_back(weight.sym_size(1));
  return sizes;
}

const auto embedding =
    op("tile::embedding(Tensor weight, Tensor indices, int padding_idx=-1) -> Tensor out")
        .outputs([](const Tensor& weight, const Tensor& indices, int64_t padding_idx) {
          return at::empty_symint(checked_sizes(weight, indices, padding_idx), weight.options());
        })
        .run([](const Tensor& weight, const Tensor& indices, int64_t, Tensor& out) {
          require_indices("indices", indices, {weight.size(0), "weight has", "rows"});
          take_rows(weight, indices, -1, out);
        })
        .vmap([](VmapCall& call) {
          // More indices; tables of their own are taken one by one.
          return call.leading({"indices"});
        })
        .grad("tile::embedding_backward");

const auto embedding_backward =
    op("tile::embedding_backward(Tensor grad_out, Tensor weight, Tensor indices, int padding_idx) -> Tensor "
       "grad_weight")
        .outputs(
            [](const Tensor& grad_out, const Tensor& weight, const Tensor& indices, int64_t padding_idx) {
              require_agrees("grad_out", grad_out, checked_sizes(weight, indices, padding_idx),
                             weight.scalar_type(), of_result);
              return result_like(weight);
            })
        .run([](const Tensor& grad_out, const Tensor& weight, const Tensor& indices, int64_t padding_idx,
                Tensor& grad_weight) {
          const int64_t height = weight.size(0), width = weight.size(1), count = indices.numel();
          require_indices("indices", indices, {height, "weight has", "rows"});
          if (grad_weight.numel() == 0) return;
          const bool cpu = weight.is_cpu();
          const int columns = width <= 256 ? 256 : cpu ? 4096 : 1024, rows = cpu ? 64 : 8;
          constexpr int64_t often = 128;  // indices a row
          if (!cpu && count >= often * height && grad_weight.is_contiguous())
            return add_in_parts(rows_of(grad_out, width), flat(indices), padding_idx, grad_weight, rows,
                                columns);
          // Each of whole blocks. On a CPU some a thread: every bin reads all indices.
          const int most = cpu ? 32 : 1024;
          const int64_t bin = ceil_div(ceil_div(height, most), 8) * 8, bins = ceil_div(height, bin);
          const auto ints = [&](int64_t size) {
            return at::empty({size}, indices.options().dtype(at::kInt));
          };
          const Bins<Tensor> of_bins{ints(count), ints(count), ints(bins), ints(bins)};
          bins_of.launch({bins}, flat(indices), of_bins, bin, padding_idx, cpu ? 512 : 2048);
          const Tensor grads = rows_of(grad_out, width);
          const Grid on_cpu{bins, ceil_div(width, columns)};
          if (cpu) {
            const Tensor first = ints(height), next = ints(count);
            chains_of.launch({bins}, of_bins.at, of_bins.begin, of_bins.end, first, next, bin, 4096);
            embedding_backward_chained.launch(on_cpu, grads, of_bins, first, next, grad_weight, bin, rows,
                                              columns);
          } else {
            const auto parted = parts_of_bins(grads, of_bins, bin, grad_weight, rows, columns);
            const std::optional<int> each = parted ? std::optional(parted->each) : std::nullopt;
            embedding_backward_of.launch({ceil_div(height, rows), ceil_div(width, columns)}, grads, of_bins,
                                         grad_weight, bin, each, together, rows, columns);
            if (parted)
              embedding_long_bins.launch({parted->sums.size(0), bin / rows, ceil_div(width, columns)}, grads,
                                         of_bins, *parted, grad_weight, bin, together, rows, columns);
          }
        })
        .grad("tile::embedding_double_backward");

// The gradient adds up rows, so that its own gradient takes them.
const auto embedding_double_backward =
    op("tile::embedding_double_backward(Tensor grad_grad_weight, Tensor weight, Tensor indices, int "
       "padding_idx, bool[2] output_mask) -> (Tensor grad_grad_out, Tensor grad_weight)")
        .outputs([](const Tensor& grad_grad_weight, const Tensor& weight, const Tensor& indices,
                    int64_t padding_idx, std::array<bool, 2> wanted) {
          const std::vector<c10::SymInt> sizes = checked_sizes(weight, indices, padding_idx);
          require_agrees("grad_grad_weight", grad_grad_weight, weight.sym_sizes(), weight.scalar_type(),
                         of_gradient);
          return std::tuple(wanted[0] ? at::empty_symint(sizes, weight.options()) : Tensor(), Tensor());
        })
        .run([](const Tensor& grad_grad_weight, const Tensor& weight, const Tensor& indices,
                int64_t padding_idx, std::array<bool, 2>, const optional<Tensor>& grad_grad_out,
                const optional<Tensor>&) {
          require_indices("indices", indices, {weight.size(0), "weight has", "rows"});
          if (grad_grad_out) take_rows(grad_grad_weight, indices, padding_idx, *grad_grad_out);
        });

}  // namespace
