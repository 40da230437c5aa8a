// Merging what blocks found of channels, on a CPU: first over the parts, as rows of all channels, since
// groups are few elements wide; then over the channels of a group.
#pragma once
#include "kernels.h"

namespace tile::group_norm {

struct PartTile {
  int parts, channels;
  Tile load(const Array& parts_of, const Tile& n, const Operand& part, const Tile& tile) const {
    return parts_of[{n}].tiled_view({parts, channels}).load({part, tile});
  }
  void store(const Array& array, const Tile& n, const Tile& tile, const Tile& values) const {
    array.tiled_view({1, channels}).store({n, tile}, values);
  }
};
inline constexpr PartTile cpu_parts{64, 64};
static_assert(cpu_parts.parts == cpu_merged.parts);  // by which the pixels are split

inline constexpr int cpu_groups = 32, cpu_group_channels = 16;  // of a tile of groups

// Each channel's moments of all its pixels, [N, C], from those of its parts, [N, parts, C]; `span` pixels a
// part, the last one what is left. Blocks of (channel tile, image).
inline void merge_parts_kernel(Array means, Array squares, Array mean, Array low, Array square, Tile pixels,
                               Tile span) {
  const PartTile at = cpu_parts;
  DType dtype = means.dtype();
  Tile tile = bid(0), n = bid(1), all = pixels.astype(dtype);
  Tile count = part_pixels(at.parts, pixels, span, dtype).expand_dims(1);
  Moments each = moments_of_parts(PartTile{1, at.channels}.load(means, n, 0, tile),
                                  at.load(means, n, 0, tile), at.load(squares, n, 0, tile), count, all);
  at.store(mean, n, tile, each.mean);
  at.store(low, n, tile, each.low);
  at.store(square, n, tile, each.square);
}

// The groups' statistics and every channel's coefficients from the channels' moments; all [N, G, C / G].
// Blocks of (groups, image).
inline void merge_channels_kernel(Array channel_mean, Array channel_low, Array channel_square,
                                  std::optional<Array> weight, std::optional<Array> bias, Array mean,
                                  Array rstd, Array centers, Array scales, Array shifts, Tile pixels,
                                  Tile eps) {
  DType dtype = mean.dtype();
  const Shape shape{cpu_groups, cpu_group_channels};
  Tile g = bid(0), n = bid(1), channels = centers.dim(2), all = pixels.astype(dtype);
  const auto load = [&](const Array& array, const Tile& i) {
    return array[{n}].tiled_view(shape).load({g, i});
  };
  Moments group = Moments::none({cpu_groups}, dtype);
  for (Tile i : range(cdiv(channels, cpu_group_channels))) {
    group.merge(group_moments(load(channel_mean, i), load(channel_low, i), load(channel_square, i), i,
                              channels, all, dtype));
  }
  store_statistics(group, weight, bias, mean, rstd, centers, scales, shifts, n, g, eps, channels,
                   cpu_group_channels);
}

}  // namespace tile::group_norm
