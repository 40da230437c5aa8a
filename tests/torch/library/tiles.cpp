// An operator of one block that applies a function of the language to tiles; the tests choose the function
// and its numbers.
#include <ATen/ops/empty.h>

#include "tile/op.h"

namespace {

using namespace tile;  // NOLINT: kernels are written in the language

Axes axes_of(int mask) {
  Axes axes;
  for (int axis = 0; axis < 4; ++axis)
    if (mask >> axis & 1) axes.named.push_back(axis);
  return axes;
}

enum What { reduced, running, places, welford, extremes, ranges, bytes, subtiles, rows, offsets };

Tile reduced_by(const Tile& x, int64_t which, const Axes& axes, bool keepdims) {
  switch (which) {
    case 0:
      return x.sum(axes, keepdims);
    case 1:
      return x.prod(axes, keepdims);
    case 2:
      return x.max(axes, keepdims);
    case 3:
      return x.min(axes, keepdims);
    case 4:
      return x.any(axes, keepdims);
    case 5:
      return x.all(axes, keepdims);
    case 6:
      return x.argmax(axes, keepdims);
    default:
      return x.argmin(axes, keepdims);
  }
}

// Computes the argmax with a user-defined reduction.
std::vector<Tile> later_if_larger(std::vector<Tile> x, std::vector<Tile> y) {
  Tile second = y[0] > x[0];
  return {where(second, y[0], x[0]), where(second, y[1], x[1])};
}
// Combines means, sums of squared differences, and counts, with the algorithm of Chan, Golub and LeVeque.
std::vector<Tile> merged(std::vector<Tile> x, std::vector<Tile> y) {
  Tile count = x[2] + y[2], difference = y[0] - x[0], share = y[2] / count;
  return {x[0] + difference * share, x[1] + y[1] + difference * difference * x[2] * share, count};
}

void tiles_kernel(Array x, Array y, Array out, Tile n, Shape shape, Shape numbers, int what) {
  const auto number = [&](size_t i) { return static_cast<int>(numbers[i]); };
  const auto all_of = [&](const Array& from) {
    return from.tiled_view({element_count(shape)}).load({0}).reshape(shape);
  };
  const auto store = [&](const Tile& tile, int64_t at = 0) {
    const int64_t count = element_count(tile.shape());
    out.tiled_view({count}).store({static_cast<long>(at)}, tile.reshape({count}));
  };
  switch (what) {
    case reduced:  // which, mask of axes, keepdims
      return store(reduced_by(all_of(x), numbers[0], axes_of(number(1)), numbers[2] != 0));
    case running: {  // which, axis, reverse
      Tile tile = all_of(x);
      const bool reverse = numbers[2] != 0;
      return store(numbers[0] == 0   ? tile.cumsum(number(1), reverse)
                   : numbers[0] == 1 ? tile.cumprod(number(1), reverse)
                   : numbers[0] == 2 ? tile.cummax(number(1), reverse)
                                     : tile.cummin(number(1), reverse));
    }
    case places: {  // mask of axes (0: all), keepdims
      Tile tile = all_of(x), place = arange(element_count(shape)).reshape(shape);
      const auto best = reduce({tile, place}, axes_of(number(0)), later_if_larger, numbers[1] != 0);
      store(best[0].astype(f32));
      return store(best[1].astype(f32), 1);
    }
    case welford: {  // mask of axes
      const auto found = reduce({all_of(x), 0.0, 1.0}, axes_of(number(0)), merged);
      for (size_t i = 0; i < 3; ++i) store(found[i], static_cast<int64_t>(i));
      return;
    }
    case extremes: {  // axis, reverse: the running maximum, and its index
      Tile place = arange(shape[static_cast<size_t>(number(0))]);
      if (number(0) + 1 < static_cast<int>(shape.size())) place = place.expand_dims(1);
      const auto best = scan({all_of(x), place}, number(0), later_if_larger, numbers[1] != 0);
      store(best[0].astype(f32));
      return store(best[1].astype(f32), 1);
    }
    case ranges: {  // size, start, step: as constants and as run-time values
      const long start = numbers[1], step = numbers[2];
      const Operand later = n.astype(out.dtype());
      Tile four[] = {arange(numbers[0], out.dtype()), arange(numbers[0], out.dtype(), start),
                     arange(numbers[0], out.dtype(), start, step),
                     arange(numbers[0], out.dtype(), later, later)};
      for (long i = 0; i < 4; ++i) store(four[i], i);
      return;
    }
    case bytes:  // the number of bytes to unpack
      if (numbers[0] == 0) return store(pack_to_bytes(all_of(x)));
      return store(unpack_from_bytes(x.tiled_view({numbers[0]}).load({0}), out.dtype()));
    case subtiles: {  // the last sub-tile of half the rows, inserted where n says, and its first element
      Tile tile = all_of(x);
      Tile part = extract(tile, {1, 0}, {shape[0] / 2, shape[1]});
      store(insert(tile, {n, 0}, part * 2 + extract(part, {0, n}, {})));
      return;
    }
    case rows: {  // axis, lengths of the others; all from element n of the first other axis on
      const int axis = number(0);
      Shape lengths(numbers.begin() + 1, numbers.end());
      const auto whole = lengths;
      std::vector<Operand> start(lengths.size(), Operand(0));
      start[0] = n * 4;
      Tile index = y.tiled_view({y.rank() ? shape[0] : 1}).load({0}).astype(i32);
      scatter_rows(out, axis, index, start, gather_rows(x, axis, index, start, whole));
      return;
    }
    case offsets: {  // a masked copy from offset n on
      Tile at = arange(shape[0]);
      store_offset(out, at + n, load_offset(x, at + n, at % 3 != 0, 0), at % 5 != 0);
      store_offset(out, n, load_offset(x, n + 1));
      return;
    }
  }
}
Kernel tiles("tiles", tiles_kernel);

const auto tiles_ =
    op("tt::tiles(Tensor x, Tensor y, SymInt[] size, ScalarType dtype, int what, int n, int[] shape, int[] "
       "numbers) -> Tensor")
        .outputs([](const at::Tensor& x, const at::Tensor&, c10::SymIntArrayRef size, at::ScalarType dtype,
                    int64_t, int64_t, at::IntArrayRef,
                    at::IntArrayRef) { return at::empty_symint(size, x.options().dtype(dtype)); })
        .run([](const at::Tensor& x, const at::Tensor& y, c10::SymIntArrayRef, at::ScalarType, int64_t what,
                int64_t n, at::IntArrayRef shape, at::IntArrayRef numbers, at::Tensor& out) {
          out.zero_();
          tiles.launch({1}, x, y, out, static_cast<int>(n), Shape(shape.begin(), shape.end()),
                       Shape(numbers.begin(), numbers.end()), static_cast<int>(what));
        });

}  // namespace
