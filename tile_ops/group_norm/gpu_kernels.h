// group_norm's kernels for a GPU: what a block sums stays in its threads' registers until its last tile.
#pragma once
#include "kernels.h"

namespace tile::group_norm {

// A whole group in registers; as fused_kernel, with `flat` [N, G, channels * pixels] one run of memory.
inline void one_tile_kernel(Array flat, std::optional<Array> weight, std::optional<Array> bias, Array y,
                            std::optional<Array> mean, std::optional<Array> rstd, Tile eps, bool activate,
                            int channels, int pixels) {
  const int elements = channels * pixels;
  Layout at{channels, pixels, 1, compute_dtype(flat.dtype())};
  Tile g = bid(0), n = bid(1);
  Tile x = flat[{n}].tiled_view({1, elements}).load({g, 0}).reshape({elements}).astype(at.dtype);
  Tile count = full({}, elements, at.dtype), center = x.sum(0) / count, d = x - center;
  Tile low = d.sum(0) / count;
  const Moments group{count, center, low, (d * d).sum(0) - low * low * count};
  Tile r = group.rstd(eps.astype(at.dtype));
  if (mean) put(*mean, n, g, group.mean + group.low);
  if (rstd) put(*rstd, n, g, r);
  Tile scale = weight ? at.load((*weight)[{g}], 0) * r : full(at.one(), r, at.dtype);
  Tile shift = -(low * scale);
  if (bias) shift += at.load((*bias)[{g}], 0);
  Tile z = fma(d.reshape({channels, pixels}), scale, shift);
  Tile result = activate ? silu(z) : z;
  y[{n}].tiled_view({1, elements}).store({g, 0}, result.reshape({1, elements}));
}

// Pixel tiles of a block: `tiles` from bid(0) * tiles on.
inline Range pixel_tiles(const Array& x, const Tile& tiles, int pixels) {
  Tile low = bid(0) * tiles;
  return range(low, min(low + tiles, cdiv(x.dim(2), pixels)));
}

// As moments_kernel. Deviations are those from the mean of the block's first tile. exact: tiles are full.
inline void stream_moments_kernel(Array x, Array means, Array squares, Tile tiles, int channels, int pixels,
                                  int axis, bool exact) {
  Layout at{channels, pixels, axis, compute_dtype(x.dtype())};
  Tile part = bid(0), tile = bid(1), n = bid(2), first = part * tiles, extent = x.dim(2);
  RowView in(x, n, channels, pixels, axis);
  Tile all = min(extent - first * pixels, tiles * pixels).astype(at.dtype);
  Tile pivot = in.load(tile, first).astype(at.dtype).sum(axis, true) /
               min(extent - first * pixels, pixels).astype(at.dtype);
  const Shape shape = axis ? Shape{channels, pixels} : Shape{pixels, channels};
  Tile sum = zeros(shape, at.dtype), square = zeros(shape, at.dtype);
  for (Tile k : pixel_tiles(x, tiles, pixels)) {
    Tile v = in.load(tile, k).astype(at.dtype);
    Tile d = exact ? v - pivot : fma(inside_row(k, pixels, axis, extent, at.dtype), -pivot, v);
    sum += d;
    square = fma(d, d, square);
  }
  Tile low = sum.sum(axis, true) / all;
  auto store = [&](const Array& array, const Tile& values) {
    array[{n}].tiled_view({1, channels}).store({part, tile}, values.reshape({1, channels}));
  };
  store(means, pivot + low);
  store(squares, square.sum(axis, true) - low * low * all);
}

// As apply_kernel, for some pixel tiles.
inline void stream_apply_kernel(Array x, Array means, Array scales, Array shifts, Array y, Tile tiles,
                                bool activate, int channels, int pixels, int axis) {
  Tile tile = bid(1), n = bid(2);
  for (Tile k : pixel_tiles(x, tiles, pixels)) {
    ImageTile in(x, means, scales, shifts, n, tile, k, {channels, pixels, axis, compute_dtype(x.dtype())});
    RowView(y, n, channels, pixels, axis).store(tile, k, activate ? silu(in.z) : in.z);
  }
}

// As sums_kernel.
inline void stream_sums_kernel(Array g, Array x, Array means, Array scales, Array bias, Array sums_d,
                               Array sums, Tile tiles, bool activate, int channels, int pixels, int axis) {
  Layout at{channels, pixels, axis, compute_dtype(x.dtype())};
  Tile tile = bid(1), n = bid(2);
  const Shape shape = axis ? Shape{channels, pixels} : Shape{pixels, channels};
  Tile sum_d = zeros(shape, at.dtype), sum = zeros(shape, at.dtype);
  for (Tile k : pixel_tiles(x, tiles, pixels)) {
    ImageTile in(x, means, scales, bias, n, tile, k, at);
    Tile dz = in.incoming(g, n, tile, k, activate);
    sum_d = fma(dz, in.d, sum_d);
    sum += dz;
  }
  auto store = [&](const Array& array, const Tile& values) {
    array[{n}]
        .tiled_view({1, channels})
        .store({bid(0), tile}, values.sum(axis, true).astype(f64).reshape({1, channels}));
  };
  store(sums_d, sum_d);
  store(sums, sum);
}

// As apply_backward_kernel, for some pixel tiles.
inline void stream_apply_backward_kernel(Array g, Array x, Array means, Array scales, Array bias,
                                         Array slopes, Array shifts, Array dx, Tile tiles, bool activate,
                                         int channels, int pixels, int axis) {
  Tile tile = bid(1), n = bid(2);
  for (Tile k : pixel_tiles(x, tiles, pixels)) {
    ImageTile in(x, means, scales, bias, n, tile, k, {channels, pixels, axis, compute_dtype(x.dtype())});
    auto load = [&](const Array& array) { return in.at.load(array[{n}], tile); };
    Tile v = fma(in.incoming(g, n, tile, k, activate), load(scales), load(shifts));
    RowView(dx, n, channels, pixels, axis).store(tile, k, fma(in.d, load(slopes), v));
  }
}

}  // namespace tile::group_norm
