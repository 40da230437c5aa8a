// group_norm's kernels for images whose groups are no single block's: each goes over all images, or merges
// what another found of channels. Arrays of images are [N, C, pixels].
#pragma once
#include "kernels.h"

namespace tile::group_norm {

// Pixel tiles of a block: `tiles` from bid(0) * tiles on.
inline Range pixel_tiles(const Array& x, const Tile& tiles, int pixels) {
  Tile low = bid(0) * tiles;
  return range(low, min(low + tiles, cdiv(x.dim(2), pixels)));
}
// The same, or bid(0) alone: f(pixel tile).
template <class F>
void each_pixel_tile(const Array& x, const std::optional<Tile>& tiles, int pixels, F f) {
  if (!tiles) return f(bid(0));
  for (Tile k : pixel_tiles(x, *tiles, pixels)) f(k);
}

// A sum over tiles along one axis. late: a GPU's threads keep their sums until the last tile. A CPU adds up
// each tile, in float64: one sum of all pixels would round in units of its own size at every step.
class TileSum {
 public:
  TileSum(bool late, Layout at)
      : late_(late), axis_(at.axis), total_(late ? zeros(at.shape(), at.dtype) : zeros(at.one(), f64)) {}
  void add(const Tile& v) { total_ += late_ ? v : along(v); }
  void add_product(const Tile& a, const Tile& b) {
    total_ = late_ ? fma(a, b, total_) : total_ + along(a * b);
  }
  Tile total() const { return late_ ? along(total_) : total_; }

 private:
  Tile along(const Tile& v) const { return v.sum(axis_, true).astype(f64); }
  bool late_;
  int axis_;
  Tile total_;
};

// Stores the result of a block, (part, channel tile, image), for its channels to an array [N, parts, C].
inline void store_part(const Array& parts, const Tile& values, int channels) {
  parts[{bid(2)}].tiled_view({1, channels}).store({bid(0), bid(1)}, values.reshape({1, channels}));
}

// As channel_moments, of the block's pixel tiles, but sums stay in a GPU's registers until the last, and
// deviations are those from the mean of the first. exact: tiles are full.
inline Moments register_moments(const Array& x, const Tile& tiles, bool exact, Layout at) {
  const auto [channels, pixels, axis] = static_cast<const TileSize&>(at);
  Tile part = bid(0), tile = bid(1), n = bid(2), first = part * tiles, extent = x.dim(2);
  RowView in(x, n, channels, pixels, axis);
  Tile all = min(extent - first * pixels, tiles * pixels).astype(at.dtype);
  Tile pivot = in.load(tile, first).astype(at.dtype).sum(axis, true) /
               min(extent - first * pixels, pixels).astype(at.dtype);
  Tile sum = zeros(at.shape(), at.dtype), square = zeros(at.shape(), at.dtype);
  for (Tile k : pixel_tiles(x, tiles, pixels)) {
    Tile v = in.load(tile, k).astype(at.dtype);
    Tile d = exact ? v - pivot : fma(inside_row(k, pixels, axis, extent, at.dtype), -pivot, v);
    sum += d;
    square = fma(d, d, square);
  }
  Tile low = sum.sum(axis, true) / all;
  return {all, pivot, low, square.sum(axis, true) - low * low * all};
}

// Statistics of channels over a part of the pixels, `tiles` pixel tiles.
inline void moments_kernel(Array x, Pair parts, Tile tiles, bool late, bool exact, TileSize size) {
  const auto& [means, squares] = parts;
  Layout at{size, compute_dtype(x.dtype())};
  const auto by_tiles = [&] {
    Tile low = bid(0) * tiles, high = min(low + tiles, cdiv(x.dim(2), at.pixels));
    return channel_moments(x, bid(2), bid(1), low, high, x.dim(2), at);
  };
  Moments all = late ? register_moments(x, tiles, exact, at) : by_tiles();
  store_part(means, all.mean + all.low, at.channels);
  store_part(squares, all.square, at.channels);
}

// The tile in which parts are merged: all parts of some channels of some groups.
struct Merged {
  int parts;  // as many as there are, or more
  int groups, channels;
  Shape of_groups() const { return {groups, channels}; }
};

// The pixels of each part: `span` of them, the last one's what is left. [parts]
inline Tile part_pixels(int parts, const Tile& pixels, const Tile& span, DType dtype) {
  // int64: the offsets of missing parts could overflow int32.
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

// Stores each channel's mean, scale = rstd weight and shift = bias - low scale, all [N, G, C / G]: act's
// argument is (x - mean) scale + shift. A large mean would take the digits of a shift that had it.
// mean, low and rstd are those of the groups; low, what the mean lost when it was rounded: none where the
// statistics were saved.
inline void store_coefficients(const Tile& mean, const std::optional<Tile>& low, const Tile& rstd,
                               const Optionals& affine, const Triple& coefficients, const Tile& n,
                               const Tile& g, const Operand& i, DType dtype, int channels) {
  const auto& [weight, bias] = affine;
  const auto& [means, scales, shifts] = coefficients;
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

// The statistics of some groups, [N, G], and the coefficients of their channels: blocks of (groups, image).
// The statistics are merged from `parts`, [N, parts, G, C / G], of `span` pixels each, the last one's what is
// left, or from `merged`, the moments of channels, [N, G, C / G]. Without both they were saved, and blocks of
// (groups, image, channel tile) need no others' channels. With both, such blocks only merge the parts: a CPU
// does this with all channels as one group, whose rows are long.
inline void coefficients_kernel(std::optional<Pair> parts, std::optional<Triple> merged, Optionals affine,
                                std::optional<Pair> statistics, std::optional<Triple> coefficients,
                                std::optional<std::tuple<Tile, Tile, Tile>> pixels_span_eps, Merged m) {
  const Shape shape = m.of_groups();
  Tile g = bid(0), n = bid(1);
  const auto load = [&](const Array& array, const Tile& i) {
    return array[{n}].tiled_view(shape).load({g, i});
  };
  const auto merge_parts = [&](const Tile& i) -> Moments {
    const auto& [means, squares] = *parts;
    const auto& [pixels, span, eps] = *pixels_span_eps;
    DType dtype = means.dtype();
    // Rows take less time on a CPU as tiles of two axes.
    const auto load_tile = [&](const Array& array, int count) {
      Tile all = array[{n}].tiled_view({count, m.groups, m.channels}).load({0, g, i});
      return merged ? all.reshape({count, m.groups * m.channels}) : all;
    };
    Tile counts = part_pixels(m.parts, pixels, span, dtype);
    return moments_of_parts(load_tile(means, 1), load_tile(means, m.parts), load_tile(squares, m.parts),
                            counts.reshape(merged ? Shape{m.parts, 1} : Shape{m.parts, 1, 1}),
                            pixels.astype(dtype));
  };
  if (parts && merged) {
    Moments each = merge_parts(bid(2));
    const auto store = [&](const Array& array, const Tile& values) {
      array[{n}].tiled_view(shape).store({g, bid(2)}, values.reshape(shape));
    };
    store(std::get<0>(*merged), each.mean);
    store(std::get<1>(*merged), each.low);
    return store(std::get<2>(*merged), each.square);
  }
  const auto& [mean, rstd] = *statistics;
  DType dtype = mean.dtype();
  const auto finish = [&](const Tile& of_mean, const std::optional<Tile>& low, const Tile& of_rstd,
                          const Tile& i) {
    store_coefficients(of_mean, low, of_rstd, affine, *coefficients, n, g, i, dtype, m.channels);
  };
  if (!parts && !merged)
    return finish(load_groups(mean, n, g, m.groups), std::nullopt, load_groups(rstd, n, g, m.groups), bid(2));
  const auto& [pixels, span, eps] = *pixels_span_eps;
  Tile channels = parts ? std::get<0>(*parts).dim(3) : std::get<0>(*merged).dim(2),
       all = pixels.astype(dtype);
  const auto load_merged = [&](const Tile& i) -> Moments {
    const auto& [means, lows, squares] = *merged;
    return {all, load(means, i), load(lows, i), load(squares, i)};
  };
  Moments group = Moments::none({m.groups}, dtype);
  for (Tile i : range(cdiv(channels, m.channels))) {
    Moments each = parts ? merge_parts(i) : load_merged(i);
    group.merge(group_moments(each.mean.reshape(shape), each.low.reshape(shape), each.square.reshape(shape),
                              i, channels, all, dtype));
  }
  Tile rounded = group.mean + group.low, low = (group.mean - rounded) + group.low,
       r = group.rstd(eps.astype(dtype));
  store_groups(mean, n, g, rounded);
  store_groups(rstd, n, g, r);
  for (Tile i : range(cdiv(channels, m.channels))) finish(rounded, low, r, i);
}

// A tile of an image: x - mean, and act's argument.
struct ImageTile {
  Layout at;
  Tile d, z;
  ImageTile(const Array& x, const Triple& coefficients, const Tile& n, const Tile& tile, const Tile& k,
            Layout at)
      : at(at), d(RowView(x, n, at.channels, at.pixels, at.axis).load(tile, k).astype(at.dtype)) {
    const auto& [means, scales, shifts] = coefficients;
    d -= at.load(means[{n}], tile);
    z = fma(d, at.load(scales[{n}], tile), at.load(shifts[{n}], tile));
  }
  // Returns the gradient before the activation: grad silu'(z). rounded: to the dtype of grad.
  Tile incoming(const Array& g, const Tile& n, const Tile& tile, const Tile& k, bool activate,
                bool rounded) const {
    Tile grad = RowView(g, n, at.channels, at.pixels, at.axis).load(tile, k).astype(at.dtype);
    if (!activate) return grad;
    Tile dz = silu_gradient(grad, z);
    return rounded ? dz.astype(g.dtype()).astype(at.dtype) : dz;
  }
};

// Blocks of (pixel tiles, channel tile, image): y from x; given the gradient g of y and of_group, which are
// slopes and shifts, dx from both.
inline void apply_kernel(std::optional<Array> g, Array x, Triple coefficients, std::optional<Pair> of_group,
                         Array out, std::optional<Tile> tiles, bool activate, bool rounded, TileSize size) {
  const Layout at{size, compute_dtype(x.dtype())};
  Tile tile = bid(1), n = bid(2);
  each_pixel_tile(x, tiles, at.pixels, [&](const Tile& k) {
    ImageTile in(x, coefficients, n, tile, k, at);
    const auto load = [&](const Array& array) { return at.load(array[{n}], tile); };
    const auto gradient = [&](const Tile& dz) {
      const auto& [slopes, shifts] = *of_group;
      return input_gradient(dz, load(std::get<1>(coefficients)), in.d, load(slopes), load(shifts), x.dtype());
    };
    Tile dz = g ? in.incoming(*g, n, tile, k, activate, rounded) : in.z;
    RowView(out, n, at.channels, at.pixels, at.axis)
        .store(tile, k,
               g          ? gradient(dz)
               : activate ? silu(in.z)
                          : in.z);
  });
}

// Sums of channels over a part of the pixels, of dz (x - mean) and of dz.
inline void sums_kernel(Array g, Array x, Triple coefficients, Pair parts, Tile tiles, bool activate,
                        bool rounded, bool late, TileSize size) {
  Layout at{size, compute_dtype(x.dtype())};
  Tile tile = bid(1), n = bid(2);
  TileSum sum_d(late, at), sum(late, at);
  for (Tile k : pixel_tiles(x, tiles, at.pixels)) {
    ImageTile in(x, coefficients, n, tile, k, at);
    Tile dz = in.incoming(g, n, tile, k, activate, rounded);
    sum_d.add_product(dz, in.d);
    sum.add(dz);
  }
  store_part(std::get<0>(parts), sum_d.total(), at.channels);
  store_part(std::get<1>(parts), sum.total(), at.channels);
}

// Each channel's gradients of weight and bias in its image, and what makes dx = dz scale + (x - mean) slope +
// shift of its group, which is rstd (w dz - mean(w dz) - xhat mean(w dz xhat)); all [N, G, C / G].
inline void merge_sums_kernel(Pair parts, Array scales, Array rstd, Pair grads, Pair of_group, Tile pixels,
                              Merged m) {
  const auto& [parts_d, parts_dz] = parts;
  const Shape shape = m.of_groups();
  DType dtype = f64;
  Tile g = bid(0), n = bid(1), channels = parts_dz.dim(3),
       r = load_groups(rstd, n, g, m.groups).astype(dtype);
  auto store = [&](const Array& array, const Tile& i, const Tile& values) {
    array[{n}].tiled_view(shape).store({g, i}, values);
  };
  Tile total_w = zeros({m.groups}, dtype), total_b = zeros({m.groups}, dtype);
  for (Tile i : range(cdiv(channels, m.channels))) {
    Tile w = load_parts(parts_d, n, g, i, m).sum(0) * r.expand_dims(1),
         b = load_parts(parts_dz, n, g, i, m).sum(0);
    store(std::get<0>(grads), i, w);
    store(std::get<1>(grads), i, b);
    Tile scale = scales[{n}].tiled_view(shape).load({g, i}).astype(dtype);
    total_w += (w * scale).sum(1);
    total_b += (b * scale).sum(1);
  }
  Tile count = channels.astype(dtype) * pixels.astype(dtype);
  Tile slope = -(r * (total_w / count)), shift = -(total_b / count);
  for (Tile i : range(cdiv(channels, m.channels))) {
    store(std::get<0>(of_group), i, slope.expand_dims(1));
    store(std::get<1>(of_group), i, shift.expand_dims(1));
  }
}

}  // namespace tile::group_norm
