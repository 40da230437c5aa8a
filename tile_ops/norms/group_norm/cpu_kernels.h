// The gradient of group_norm on a CPU, where a group's pixels are rows of memory: a block a group.
#pragma once
#include "kernels.h"

namespace tile::group_norm {

// One block a group: what it read for the sums is still in a cache where it computes dx. Arrays are
// [N, G, C / G, pixels], weight and bias [G, C / G], statistics [N, G], grads, those of weight and bias,
// [N, G, C / G].
// dz waits for the sums: times its scale in dx where this holds it unrounded; of 16-bit dtypes in a tile,
// which the group must fit.
inline void fused_backward_kernel(Array g, Array x, Optionals affine, Pair statistics,
                                  std::optional<Array> dx, Pair grads, bool activate, TileSize size) {
  const auto& [weight, bias] = affine;
  const Layout at{size, compute_dtype(x.dtype())};
  const bool in_dx = dx && x.dtype() == at.dtype;
  Tile group = bid(0), n = bid(1);
  Array image = x[{n}], incoming = g[{n}], out = dx ? (*dx)[{n}] : image;
  const auto rows = [&](const Array& of) { return RowView(of, group, at.channels, at.pixels, 1); };
  RowView xs = rows(image), gs = rows(incoming), outs = rows(out);
  const auto statistic = [&](const Array& of) { return of.tiled_view({1, 1}).load({n, group}); };
  Tile m = statistic(std::get<0>(statistics)), r = statistic(std::get<1>(statistics)), wide_r = r.astype(f64);
  const auto scale_of = [&](const Tile& i) {
    return weight ? at.load((*weight)[{group}], i) * r : r.broadcast_to(at.one());
  };
  const auto deviation = [&](const Tile& i, const Tile& k) { return xs.load(i, k).astype(at.dtype) - m; };
  const auto before_activation = [&](const Tile& scale, const Tile& d, const Tile& i, const Tile& k) {
    Tile dz = gs.load(i, k).astype(at.dtype);
    if (!activate) return dz;
    return silu_gradient(dz, bias ? fma(d, scale, at.load((*bias)[{group}], i)) : d * scale);
  };
  const auto unrounded = [&](const Tile& dz, const Tile& scale) {
    return fma(dz, scale, zeros({}, at.dtype));
  };
  const auto sum_of = [&](const Tile& tile) { return tile.sum(1, true).astype(f64); };
  Tile total_w = zeros({1, 1}, f64), total_b = zeros({1, 1}, f64);
  // Sums of tiles are float64, as in sums_kernel.
  const auto add = [&](const Tile& scale, const Tile& i, const Tile& sum_d, const Tile& sum) {
    const auto store = [&](const Array& to, const Tile& tile) {
      to[{n}].tiled_view({1, at.channels}).store({group, i}, tile.reshape({1, at.channels}));
    };
    Tile w = sum_d * wide_r;
    store(std::get<0>(grads), w);
    store(std::get<1>(grads), sum);
    total_w += (w * scale.astype(f64)).sum(0, true);
    total_b += (sum * scale.astype(f64)).sum(0, true);
  };
  Tile tiles = cdiv(x.dim(2), at.channels), saved_dz = zeros(at.shape(), at.dtype);
  for (Tile i : range(tiles)) {
    Tile scale = scale_of(i), sum_d = zeros(at.one(), f64), sum = zeros(at.one(), f64);
    for (Tile k : range(xs.steps())) {
      Tile d = deviation(i, k), dz = before_activation(scale, d, i, k);
      if (in_dx)
        outs.store(i, k, unrounded(dz, scale));
      else if (dx)
        saved_dz = dz;
      sum_d += sum_of(dz * d);
      sum += sum_of(dz);
    }
    add(scale, i, sum_d, sum);
  }
  if (!dx) return;
  Tile count = x.dim(2).astype(f64) * x.dim(3).astype(f64);
  Tile slope = (-(wide_r * (total_w / count))).astype(at.dtype),
       shift = (-(total_b / count)).astype(at.dtype);
  for (Tile i : range(tiles)) {
    Tile scale = scale_of(i);
    for (Tile k : range(xs.steps())) {
      Tile d = deviation(i, k);
      outs.store(i, k,
                 in_dx ? outs.load(i, k) + fma(d, slope, shift)
                       : input_gradient(saved_dz, scale, d, slope, shift, x.dtype()));
    }
  }
}

}  // namespace tile::group_norm
