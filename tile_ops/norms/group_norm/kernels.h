// The kernels of group_norm and its gradient, for both memory orders.
#pragma once
#include "tile/rows.h"

namespace tile::group_norm {

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
    Tile total = count + part.count, share = part.count / total,
         delta = (part.mean - mean) + (part.low - low);
    square += part.square + delta * delta * (count * share);
    Tile step = (part.mean - mean) * share, next = mean + step;
    low += (part.low - low) * share + (step - (next - mean));
    mean = next;
    count = total;
  }
  // Of equal values the squares may come out below 0 by a rounding.
  Tile rstd(const Tile& eps) const { return 1 / sqrt(where(square < 0, 0, square) / count + eps); }
};

struct Layout {
  int channels, pixels, axis;  // of a tile; the axis of its pixels
  DType dtype;
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
inline void normalise(const Moments& group, const Array& x, const std::optional<Array>& weight,
                      const std::optional<Array>& bias, const Array& y, const std::optional<Array>& mean,
                      const std::optional<Array>& rstd, const Tile& eps, bool activate, Layout at) {
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

// As fused_kernel, where a group is one run of memory, `flat` [N, G, elements of a group]: sums stay in their
// registers until the run's end. Deviations are those from the mean of its beginning.
inline void fused_run_kernel(Array flat, Array x, std::optional<Array> weight, std::optional<Array> bias,
                             Array y, std::optional<Array> mean, std::optional<Array> rstd, Tile eps,
                             bool activate, int channels, int pixels, int run) {
  constexpr int first = 256;
  Layout at{channels, pixels, 1, compute_dtype(x.dtype())};
  Array group = flat[{bid(1), bid(0)}];
  View in = group.tiled_view({run});
  Tile extent = flat.dim(2), count = extent.astype(at.dtype);
  Tile pivot =
      group.tiled_view({first}).load({0}).astype(at.dtype).sum(0) / min(extent, first).astype(at.dtype);
  Tile sum = zeros({run}, at.dtype), square = zeros({run}, at.dtype);
  for (Tile k : range(in.num_tiles(0))) {
    Tile inside = where(arange(run) + k * run < extent, full({run}, 1, at.dtype), 0);
    Tile d = fma(inside, -pivot, in.load({k}).astype(at.dtype));
    sum += d;
    square = fma(d, d, square);
  }
  Tile low = sum.sum(0) / count;
  normalise({count, pivot, low, square.sum(0) - low * low * count}, x, weight, bias, y, mean, rstd, eps,
            activate, at);
}

// One block a group; arrays are [N, G, C / G, pixels], weight and bias [G, C / G]. whole: a group is one
// tile.
inline void fused_kernel(Array x, std::optional<Array> weight, std::optional<Array> bias, Array y,
                         std::optional<Array> mean, std::optional<Array> rstd, Tile eps, bool whole,
                         bool activate, int channels, int pixels) {
  Layout at{channels, pixels, 1, compute_dtype(x.dtype())};
  Tile g = bid(0), n = bid(1), extent = x.dim(3);
  Array image = x[{n}];
  RowView in(image, g, channels, pixels, 1);
  auto of_group = [&](const Moments& each, const Operand& i) {
    return group_moments(each.mean.reshape({channels}), each.low.reshape({channels}),
                         each.square.reshape({channels}), i, x.dim(2), extent.astype(at.dtype), at.dtype);
  };
  Moments group = Moments::none({}, at.dtype);
  if (whole)
    group = of_group(tile_moments(image, g, 0, 0, extent, at), 0);
  else
    for (Tile i : range(cdiv(x.dim(2), channels)))
      group.merge(of_group(channel_moments(image, g, i, 0, in.steps(), extent, at), i));
  normalise(group, x, weight, bias, y, mean, rstd, eps, activate, at);
}

// Statistics of channels over a part of the pixels: blocks of (part, channel tile, image), parts [N, parts,
// C].
inline void moments_kernel(Array x, Array means, Array squares, Tile tiles, int channels, int pixels,
                           int axis) {
  Layout at{channels, pixels, axis, compute_dtype(x.dtype())};
  Tile low = bid(0) * tiles, high = min(low + tiles, cdiv(x.dim(2), pixels));
  Moments all = channel_moments(x, bid(2), bid(1), low, high, x.dim(2), at);
  means[{bid(2)}]
      .tiled_view({1, channels})
      .store({bid(0), bid(1)}, (all.mean + all.low).reshape({1, channels}));
  squares[{bid(2)}].tiled_view({1, channels}).store({bid(0), bid(1)}, all.square.reshape({1, channels}));
}

// The tile in which parts are merged: all parts of some channels of some groups.
struct Merged {
  int parts, groups, channels;
};
inline constexpr Merged cpu_merged{64, 8, 64};

// The pixels of each part: `span` of them, the last one's what is left. [parts]
inline Tile part_pixels(int parts, const Tile& pixels, const Tile& span, DType dtype) {
  // Of parts that are not there, int32 could wrap around.
  Tile part = arange(parts).astype(i64), width = span.astype(i64);
  return max(min(pixels.astype(i64) - part * width, width), 0).astype(dtype);
}
// Those of all parts, along axis 0, of `count` pixels each. Around the first part: the sum of means
// themselves would round in units of a large one.
inline Moments moments_of_parts(const Tile& first, const Tile& means, const Tile& squares, const Tile& count,
                                const Tile& pixels) {
  Tile d = means - first, low = (d * count).sum(0, true) / pixels;
  d -= low;
  return {pixels, first, low, squares.sum(0, true) + (d * d * count).sum(0, true)};
}

// Channels of some groups in all parts, from an array [N, parts, G, C / G].
inline Tile load_parts(const Array& parts, const Tile& n, const Tile& g, const Tile& i, Merged m) {
  return parts[{n}].tiled_view({m.parts, m.groups, m.channels}).load({0, g, i});
}
// A value a group, from and to an array [N, G].
inline Tile load_groups(const Array& array, const Tile& n, const Tile& g, int groups) {
  return array[{n}].tiled_view({groups}).load({g});
}
inline void store_groups(const Array& array, const Tile& n, const Tile& g, const Tile& values) {
  array[{n}].tiled_view({static_cast<int>(values.shape(0))}).store({g}, values);
}

// Of each channel its mean, scale = rstd weight and shift = bias - low scale, all [N, G, C / G]: act's
// argument is (x - mean) scale + shift. A large mean would take the digits of a shift that had it.
// mean, low and rstd are those of the groups; low, what the mean lost when it was rounded: none where the
// statistics were saved.
inline void store_coefficients(const Tile& mean, const std::optional<Tile>& low, const Tile& rstd,
                               const std::optional<Array>& weight, const std::optional<Array>& bias,
                               const Array& means, const Array& scales, const Array& shifts, const Tile& n,
                               const Tile& g, const Operand& i, DType dtype, int channels) {
  const Shape shape{static_cast<int>(rstd.shape(0)), channels};
  auto of_group = [&](const Tile& t) { return t.expand_dims(1).broadcast_to(shape); };
  auto parameter = [&](const Array& array) { return array.tiled_view(shape).load({g, i}).astype(dtype); };
  auto store = [&](const Array& array, const Tile& values) {
    array[{n}].tiled_view(shape).store({g, i}, values);
  };
  Tile scale = of_group(rstd), shift = bias ? parameter(*bias) : zeros(shape, dtype);
  if (weight) scale *= parameter(*weight);
  if (low) shift -= of_group(*low) * scale;
  store(means, of_group(mean));
  store(scales, scale);
  store(shifts, shift);
}

// The statistics of some groups, and the coefficients of their channels, `channels` a group.
inline void store_statistics(const Moments& group, const std::optional<Array>& weight,
                             const std::optional<Array>& bias, const Array& mean, const Array& rstd,
                             const Array& centers, const Array& scales, const Array& shifts, const Tile& n,
                             const Tile& g, const Tile& eps, const Tile& channels, int channels_together) {
  DType dtype = mean.dtype();
  Tile rounded = group.mean + group.low, low = (group.mean - rounded) + group.low,
       r = group.rstd(eps.astype(dtype));
  store_groups(mean, n, g, rounded);
  store_groups(rstd, n, g, r);
  for (Tile i : range(cdiv(channels, channels_together)))
    store_coefficients(rounded, low, r, weight, bias, centers, scales, shifts, n, g, i, dtype,
                       channels_together);
}

// Merges the parts of some groups' channels; a part has `span` pixels, the last one what is left.
inline void merge_kernel(Array means, Array squares, std::optional<Array> weight, std::optional<Array> bias,
                         Array mean, Array rstd, Array centers, Array scales, Array shifts, Tile pixels,
                         Tile span, Tile eps, int parts, int groups, int channels_together) {
  const Merged tile{parts, groups, channels_together};
  DType dtype = means.dtype();
  Tile g = bid(0), n = bid(1), channels = means.dim(3), all = pixels.astype(dtype);
  Tile count = part_pixels(parts, pixels, span, dtype).reshape({parts, 1, 1});
  const Shape shape{groups, channels_together};
  Moments group = Moments::none({groups}, dtype);
  for (Tile i : range(cdiv(channels, channels_together))) {
    Moments each =
        moments_of_parts(means[{n}].tiled_view({1, groups, channels_together}).load({0, g, i}),
                         load_parts(means, n, g, i, tile), load_parts(squares, n, g, i, tile), count, all);
    group.merge(group_moments(each.mean.reshape(shape), each.low.reshape(shape), each.square.reshape(shape),
                              i, channels, all, dtype));
  }
  store_statistics(group, weight, bias, mean, rstd, centers, scales, shifts, n, g, eps, channels,
                   channels_together);
}

// The coefficients of statistics that were saved.
inline void coefficients_kernel(Array mean, Array rstd, std::optional<Array> weight,
                                std::optional<Array> bias, Array means, Array scales, Array shifts) {
  Tile i = bid(0), g = bid(1), n = bid(2);
  store_coefficients(load_groups(mean, n, g, cpu_merged.groups), std::nullopt,
                     load_groups(rstd, n, g, cpu_merged.groups), weight, bias, means, scales, shifts, n, g, i,
                     mean.dtype(), cpu_merged.channels);
}

inline Tile silu_gradient(const Tile& grad, const Tile& z) {
  Tile s = sigmoid(z);
  return grad * s * fma(z, 1 - s, ones({}, grad.dtype()));
}

// A tile of an image: x - mean, and act's argument.
struct ImageTile {
  Layout at;
  Tile d, z;
  ImageTile(const Array& x, const Array& means, const Array& scales, const Array& shifts, const Tile& n,
            const Tile& tile, const Tile& k, Layout at)
      : at(at), d(RowView(x, n, at.channels, at.pixels, at.axis).load(tile, k).astype(at.dtype)) {
    d -= at.load(means[{n}], tile);
    z = fma(d, at.load(scales[{n}], tile), at.load(shifts[{n}], tile));
  }
  // Returns the gradient before the activation: grad silu'(z).
  Tile incoming(const Array& g, const Tile& n, const Tile& tile, const Tile& k, bool activate,
                bool rounded = false) const {
    Tile grad = RowView(g, n, at.channels, at.pixels, at.axis).load(tile, k).astype(at.dtype);
    if (!activate) return grad;
    Tile dz = silu_gradient(grad, z);
    return rounded ? dz.astype(g.dtype()).astype(at.dtype) : dz;
  }
};

// Blocks of (pixel tile, channel tile, image).
inline void apply_kernel(Array x, Array means, Array scales, Array shifts, Array y, bool activate,
                         int channels, int pixels, int axis) {
  Tile k = bid(0), tile = bid(1), n = bid(2);
  ImageTile in(x, means, scales, shifts, n, tile, k, {channels, pixels, axis, compute_dtype(x.dtype())});
  RowView(y, n, channels, pixels, axis).store(tile, k, activate ? silu(in.z) : in.z);
}

// Sums of channels over a part of the pixels, of dz (x - mean) and of dz; blocks and parts as of
// moments_kernel. Sums of tiles are float64: one of all pixels would round in units of its own size at every
// step.
inline void sums_kernel(Array g, Array x, Array means, Array scales, Array bias, Array sums_d, Array sums,
                        Tile tiles, bool activate, int channels, int pixels, int axis) {
  Layout at{channels, pixels, axis, compute_dtype(x.dtype())};
  Tile tile = bid(1), n = bid(2), low = bid(0) * tiles;
  Tile sum_d = zeros(at.one(), f64), sum = zeros(at.one(), f64);
  for (Tile k : range(low, min(low + tiles, cdiv(x.dim(2), pixels)))) {
    ImageTile in(x, means, scales, bias, n, tile, k, at);
    Tile dz = in.incoming(g, n, tile, k, activate);
    sum_d += (dz * in.d).sum(axis, true).astype(f64);
    sum += dz.sum(axis, true).astype(f64);
  }
  sums_d[{n}].tiled_view({1, channels}).store({bid(0), tile}, sum_d.reshape({1, channels}));
  sums[{n}].tiled_view({1, channels}).store({bid(0), tile}, sum.reshape({1, channels}));
}

// dx. Its rounding to 16 bits hides that of a product; else the product is rounded by itself (a fma, since
// NVRTC joins a product and a sum): in a group of one value it is what the shift takes away.
inline Tile input_gradient(const Tile& dz, const Tile& scale, const Tile& d, const Tile& slope,
                           const Tile& shift, DType stored) {
  Tile rest = fma(d, slope, shift);
  return info(stored).bytes == 2 ? fma(dz, scale, rest) : fma(dz, scale, zeros({}, dz.dtype())) + rest;
}

// Each channel's gradients of weight and bias in its image, and what makes dx = dz scale + (x - mean) slope +
// shift of its group, which is rstd (w dz - mean(w dz) - xhat mean(w dz xhat)); all [N, G, C / G].
inline void merge_sums_kernel(Array parts_d, Array parts, Array scales, Array rstd, Array grad_w,
                              Array grad_b, Array slopes, Array shifts, Tile pixels, int parts_together,
                              int groups, int channels_together) {
  const Merged tile{parts_together, groups, channels_together};
  const Shape shape{groups, channels_together};
  DType dtype = f64;
  Tile g = bid(0), n = bid(1), channels = parts.dim(3), r = load_groups(rstd, n, g, groups).astype(dtype);
  auto store = [&](const Array& array, const Tile& i, const Tile& values) {
    array[{n}].tiled_view(shape).store({g, i}, values);
  };
  Tile total_w = zeros({groups}, dtype), total_b = zeros({groups}, dtype);
  for (Tile i : range(cdiv(channels, channels_together))) {
    Tile w = load_parts(parts_d, n, g, i, tile).sum(0) * r.expand_dims(1),
         b = load_parts(parts, n, g, i, tile).sum(0);
    store(grad_w, i, w);
    store(grad_b, i, b);
    Tile scale = scales[{n}].tiled_view(shape).load({g, i}).astype(dtype);
    total_w += (w * scale).sum(1);
    total_b += (b * scale).sum(1);
  }
  Tile count = channels.astype(dtype) * pixels.astype(dtype);
  Tile slope = -(r * (total_w / count)), shift = -(total_b / count);
  for (Tile i : range(cdiv(channels, channels_together))) {
    store(slopes, i, slope.expand_dims(1));
    store(shifts, i, shift.expand_dims(1));
  }
}

inline void apply_backward_kernel(Array g, Array x, Array means, Array scales, Array bias, Array slopes,
                                  Array shifts, Array dx, bool activate, int channels, int pixels, int axis) {
  Tile k = bid(0), tile = bid(1), n = bid(2);
  ImageTile in(x, means, scales, bias, n, tile, k, {channels, pixels, axis, compute_dtype(x.dtype())});
  auto load = [&](const Array& array) { return in.at.load(array[{n}], tile); };
  Tile dz = in.incoming(g, n, tile, k, activate);
  RowView(dx, n, channels, pixels, axis)
      .store(tile, k, input_gradient(dz, load(scales), in.d, load(slopes), load(shifts), x.dtype()));
}

}  // namespace tile::group_norm
