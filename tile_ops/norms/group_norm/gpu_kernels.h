// group_norm's kernels for a GPU whose tile is whole groups: registers hold them, of a cluster where they are
// large.
#pragma once
#include "kernels.h"

namespace tile::group_norm {

// Whole groups as one tile. Of NCHW one group, [1, channels, pixels], from arrays [N, G, channels * pixels];
// of channels_last some neighbours, [pixels, groups, channels], from arrays [N, pixels, C].
struct GroupSize {
  int groups;
  int channels;  // of a group
  int pixels;
  int axis;  // of the pixels, 0 or 2
};
struct GroupTile : GroupSize {
  DType dtype;
  int elements() const { return channels * pixels; }

  Shape shape() const { return axis ? Shape{groups, channels, pixels} : Shape{pixels, groups, channels}; }
  Tile load(const Array& array) const {
    const View tiles = view(array);
    return (axis ? tiles.load({bid(0), 0}) : tiles.load({0, bid(0)})).reshape(shape()).astype(dtype);
  }
  void store(const Array& array, const Tile& values) const {
    const Tile all = values.reshape(flat());
    axis ? view(array).store({bid(0), 0}, all) : view(array).store({0, bid(0)}, all);
  }
  // The mean of each group's first elements, to take deviations from: one sum less is waited for. The
  // variance loses float32's rounding times the square of how many deviations that mean is off: at most as
  // often as the group has elements for each one here, which 16 bits do not show.
  Tile sample(const Array& array) const {
    const View some =
        array[{bid(1)}].tiled_view(axis ? Shape{groups, first_of(elements())} : Shape{1, groups * channels});
    Tile first = (axis ? some.load({bid(0), 0}) : some.load({0, bid(0)})).astype(dtype);
    const int64_t each = axis ? first_of(elements()) : channels;
    return first.reshape({groups, each}).sum(1) / static_cast<double>(each);
  }
  // Sums of each group, of each channel; their mean.
  Tile sum(const Tile& x) const { return axis ? x.reshape(flat()).sum(1) : x.sum(2).sum(0); }
  Tile sum_of_channels(const Tile& x) const { return x.sum(axis); }
  Tile mean(const Tile& x) const { return sum(x) / static_cast<double>(elements()); }
  // Values a group or a channel over the tile.
  Tile over(const Tile& values) const {
    const int64_t each = values.rank() == 2 ? values.shape(1) : 1;
    return values.reshape(axis ? Shape{groups, each, 1} : Shape{1, groups, each});
  }
  // From and to arrays of a value a group or a channel, [N, G] and [N, C] or [C].
  Tile load_channels(const Array& array) const {
    return array.tiled_view({groups * channels}).load({bid(0)}).reshape({groups, channels}).astype(dtype);
  }
  Tile load_groups(const Array& array) const {
    return array[{bid(1)}].tiled_view({groups}).load({bid(0)}).astype(dtype);
  }
  void store_groups(const Array& array, const Tile& values) const {
    array[{bid(1)}].tiled_view({groups}).store({bid(0)}, values);
  }
  void store_channels(const Array& array, const Tile& values) const {
    array[{bid(1)}].tiled_view({groups * channels}).store({bid(0)}, values.reshape({groups * channels}));
  }

 private:
  static int64_t first_of(int elements) { return std::min(elements, 64); }
  Shape flat() const { return axis ? Shape{groups, elements()} : Shape{pixels, groups * channels}; }
  View view(const Array& array) const { return array[{bid(1)}].tiled_view(flat()); }
};

inline void one_tile_kernel(Array x, Optionals affine, Array y, Optionals statistics, Tile eps, bool activate,
                            int thread_hint, GroupSize size) {
  const auto& [weight, bias] = affine;
  const auto& [mean, rstd] = statistics;
  const GroupTile at{size, compute_dtype(x.dtype())};
  hint_threads(thread_hint);
  Tile in = at.load(x), center = info(x.dtype()).bytes == 2 ? at.sample(x) : at.mean(in),
       d = in - at.over(center), low = at.mean(d);
  Tile count = full({}, at.elements(), at.dtype);
  const Moments group{count, center, low, at.sum(d * d) - low * low * count};
  Tile r = group.rstd(eps.astype(at.dtype));
  if (mean) at.store_groups(*mean, group.mean + group.low);
  if (rstd) at.store_groups(*rstd, r);
  Tile scale = r.expand_dims(1), shift = -(low * r).expand_dims(1);
  if (weight) {
    Tile w = at.load_channels(*weight);
    scale = w * scale;
    shift = w * shift;
  }
  if (bias) shift += at.load_channels(*bias);
  Tile z = fma(d, at.over(scale), at.over(shift));
  at.store(y, activate ? silu(z) : z);
}

// The gradient of whole groups. grads, of weight and bias, are those of each image, [N, C].
inline void one_tile_backward_kernel(Array g, Array x, Optionals affine, Pair statistics,
                                     std::optional<Array> dx, Pair grads, bool activate, GroupSize size) {
  const auto& [weight, bias] = affine;
  const auto& [mean, rstd] = statistics;
  const GroupTile at{size, compute_dtype(x.dtype())};
  Tile r = at.load_groups(rstd).expand_dims(1);
  Tile d = at.load(x) - at.over(at.load_groups(mean)), dz = at.load(g);
  Tile w = weight ? at.load_channels(*weight) : ones({at.groups, at.channels}, at.dtype), scale = w * r;
  if (activate) {
    Tile z = d * at.over(scale);
    if (bias) z = fma(d, at.over(scale), at.over(at.load_channels(*bias)));
    dz = silu_gradient(dz, z);
    // It is rounded once, as by torch's two operators, and kept so; not where gradients of parameters are
    // wider.
    if (!weight || weight->dtype() == x.dtype()) dz = dz.astype(x.dtype()).astype(at.dtype);
  }
  Tile of_w = at.sum_of_channels(dz * d) * r, of_b = at.sum_of_channels(dz);
  at.store_channels(std::get<0>(grads), of_w);
  at.store_channels(std::get<1>(grads), of_b);
  if (!dx) return;
  Tile sum_w = (of_w * scale).sum(1), sum_b = (of_b * scale).sum(1);
  Tile count = full({}, at.elements(), at.dtype);
  Tile slope = -(r * (sum_w / count).expand_dims(1)), shift = -(sum_b / count).expand_dims(1);
  at.store(*dx, input_gradient(dz, at.over(scale), d, at.over(slope), at.over(shift), x.dtype()));
}

}  // namespace tile::group_norm
