// Helpers of group_norm's kernels, and the kernel that computes a group in a block.
#pragma once
#include <optional>
#include <tuple>

#include "tile/rows.h"

namespace tile::group_norm {

// Arrays that travel together, with the names that kernels bind them to. A launch takes a tuple of as many
// tensors for them.
using Pair = std::tuple<Array, Array>;
// Weight and bias; mean and rstd.
using Optionals = std::tuple<std::optional<Array>, std::optional<Array>>;
// Numbers of channels: center or mean, scale and shift; mean, low and square.
using Triple = std::tuple<Array, Array, Array>;

// The tile of a kernel, known while it is traced: each of its sizes is another kernel, as it is with every
// struct of constants.
struct TileSize {
  int channels;
  int pixels;
  int axis;  // of the pixels, 0 or 1
};

// How many values, their mean, and the sum of their squared deviations from it. A mean is the sum of two
// tiles, the second what rounding took from the first: a mean of thousands of deviations would else be off by
// a part of one.
struct Moments {
  Tile count, mean, low, square;
  static Moments none(const Shape& shape, DType dtype) {
    return {zeros({}, dtype), zeros(shape, dtype), zeros(shape, dtype), zeros(shape, dtype)};
  }
  // Those of both parts (Chan).
  void merge(const Moments& part) {
    Tile total = count + part.count, fraction = part.count / total,
         delta = (part.mean - mean) + (part.low - low);
    square += part.square + delta * delta * (count * fraction);
    Tile step = (part.mean - mean) * fraction, next = mean + step;
    low += (part.low - low) * fraction + (step - (next - mean));
    mean = next;
    count = total;
  }
  // Rounding may make the squares of equal values negative.
  Tile rstd(const Tile& eps) const { return 1 / sqrt(where(square < 0, 0, square) / count + eps); }
};

struct Layout : TileSize {
  DType dtype;
  Shape shape() const { return axis ? Shape{channels, pixels} : Shape{pixels, channels}; }
  Shape one() const { return axis ? Shape{channels, 1} : Shape{1, channels}; }
  Tile vector(const Tile& v) const { return axis ? v.expand_dims(1) : v.expand_dims(0); }
  Tile load(const Array& of_channels, const Tile& tile) const {
    return vector(of_channels.tiled_view({channels}).load({tile}).astype(dtype));
  }
};

// Those of each channel in pixel tile k. Deviations are those from the mean of the tile's first part, so that
// one pass over the rest is enough: it is within a few deviations of the tile's.
inline Moments tile_moments(const Array& array, const Operand& slice, const Operand& tile, const Operand& k,
                            const Tile& pixels, Layout at) {
  constexpr int parts = 32;  // of which one is the first
  const int first = at.pixels / parts;
  RowView x(array, slice, at.channels, at.pixels, at.axis), start(array, slice, at.channels, first, at.axis);
  Tile left = pixels - k * at.pixels, n = min(left, at.pixels).astype(at.dtype);
  Tile m =
      start.load(tile, k * parts).astype(at.dtype).sum(at.axis, true) / min(left, first).astype(at.dtype);
  Tile d = fma(inside_row(k, at.pixels, at.axis, pixels, at.dtype), -m, x.load(tile, k).astype(at.dtype));
  Tile l = d.sum(at.axis, true) / n;
  return {n, m, l, (d * d).sum(at.axis, true) - l * l * n};
}
// In pixel tiles low … high - 1, of which there is one or more: the first, often the only one, is no merge.
inline Moments channel_moments(const Array& array, const Operand& slice, const Tile& tile, const Tile& low,
                               const Tile& high, const Tile& pixels, Layout at) {
  Moments all = tile_moments(array, slice, tile, low, pixels, at);
  for (Tile k : range(low + 1, high)) all.merge(tile_moments(array, slice, tile, k, pixels, at));
  return all;
}

// From those of a tile of channels along the last axis, of `pixels` values each, those of their groups (a
// scalar, or one an element of the axis before); channels past the end are 0.
inline Moments group_moments(const Tile& mean, const Tile& low, const Tile& square, const Operand& tile,
                             const Tile& channels, const Tile& pixels, DType dtype) {
  int extent = static_cast<int>(mean.shape(-1)), axis = mean.rank() - 1;
  Tile n = min(channels - tile * extent, extent).astype(dtype);
  Tile m = mean.sum(axis) / n;
  Tile d = where(arange(extent) + tile * extent < channels, (mean - m.expand_dims(axis)) + low, 0);
  Tile l = d.sum(axis) / n;
  return {n * pixels, m, l, square.sum(axis) + ((d * d).sum(axis) - l * l * n) * pixels};
}

inline void put(const Array& array, const Tile& n, const Tile& g, const Tile& value) {
  array.tiled_view({1, 1}).store({n, g}, value.reshape({1, 1}));
}

// The statistics of a group, and its results: arrays are [N, G, C / G, pixels], weight and bias [G, C / G].
inline void normalise(const Moments& group, const Array& x, const Optionals& affine, const Array& y,
                      const Optionals& statistics, const Tile& eps, bool activate, Layout at) {
  const auto& [weight, bias] = affine;
  const auto& [mean, rstd] = statistics;
  Tile g = bid(0), n = bid(1);
  Array image = x[{n}], result = y[{n}];
  RowView in(image, g, at.channels, at.pixels, 1), out(result, g, at.channels, at.pixels, 1);
  Tile r = group.rstd(eps.astype(at.dtype));
  if (mean) put(*mean, n, g, group.mean + group.low);
  if (rstd) put(*rstd, n, g, r);
  for (Tile i : range(cdiv(x.dim(2), at.channels))) {
    Tile scale = weight ? at.load((*weight)[{g}], i) * r : full(at.one(), r, at.dtype);
    Tile shift = -(group.low * scale);
    if (bias) shift += at.load((*bias)[{g}], i);
    for (Tile k : range(in.steps())) {
      Tile z = fma(in.load(i, k).astype(at.dtype) - group.mean, scale, shift);
      out.store(i, k, activate ? silu(z) : z);
    }
  }
}

// Those of the block's group where groups are runs of memory, [N, G, elements]: sums stay in their registers
// until the run's end. Deviations are those from the mean of its beginning.
inline Moments run_moments(const Array& runs, DType dtype) {
  constexpr int first = 256, together = 4096;
  Array run = runs[{bid(1), bid(0)}];
  View in = run.tiled_view({together});
  Tile extent = runs.dim(2), count = extent.astype(dtype);
  Tile pivot = run.tiled_view({first}).load({0}).astype(dtype).sum(0) / min(extent, first).astype(dtype);
  Tile sum = zeros({together}, dtype), square = zeros({together}, dtype);
  for (Tile k : range(in.num_tiles(0))) {
    Tile inside = where(arange(together) + k * together < extent, full({together}, 1, dtype), 0);
    Tile d = fma(inside, -pivot, in.load({k}).astype(dtype));
    sum += d;
    square = fma(d, d, square);
  }
  Tile low = sum.sum(0) / count;
  return {count, pivot, low, square.sum(0) - low * low * count};
}

// One block a group; arrays are [N, G, C / G, pixels], weight and bias [G, C / G]. runs: x again as
// [N, G, elements of a group], given where a GPU loops over runs of memory. single: a group is one tile.
inline void fused_kernel(std::optional<Array> runs, Array x, Optionals affine, Array y, Optionals statistics,
                         Tile eps, bool single, bool activate, TileSize size) {
  Layout at{size, compute_dtype(x.dtype())};
  if (runs) return normalise(run_moments(*runs, at.dtype), x, affine, y, statistics, eps, activate, at);
  Tile g = bid(0), n = bid(1), extent = x.dim(3);
  Array image = x[{n}];
  RowView in(image, g, at.channels, at.pixels, 1);
  auto of_group = [&](const Moments& each, const Operand& i) {
    return group_moments(each.mean.reshape({at.channels}), each.low.reshape({at.channels}),
                         each.square.reshape({at.channels}), i, x.dim(2), extent.astype(at.dtype), at.dtype);
  };
  Moments group = Moments::none({}, at.dtype);
  if (single)
    group = of_group(tile_moments(image, g, 0, 0, extent, at), 0);
  else
    for (Tile i : range(cdiv(x.dim(2), at.channels)))
      group.merge(of_group(channel_moments(image, g, i, 0, in.steps(), extent, at), i));
  normalise(group, x, affine, y, statistics, eps, activate, at);
}

inline Tile silu_gradient(const Tile& grad, const Tile& z) {
  Tile s = sigmoid(z);
  return grad * s * fma(z, 1 - s, ones({}, grad.dtype()));
}

// dx. Its rounding to 16 bits hides that of a product; else the product is rounded by itself (a fma, since
// NVRTC joins a product and a sum): in a group of one value it is what the shift takes away.
inline Tile input_gradient(const Tile& dz, const Tile& scale, const Tile& d, const Tile& slope,
                           const Tile& shift, DType stored) {
  Tile rest = fma(d, slope, shift);
  return info(stored).bytes == 2 ? fma(dz, scale, rest) : fma(dz, scale, zeros({}, dz.dtype())) + rest;
}

}  // namespace tile::group_norm
