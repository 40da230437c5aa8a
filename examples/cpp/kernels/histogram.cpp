// Histogram: each block counts in its own bins with block-scoped atomics, then the blocks' bins are summed.
#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

// counts: [blocks, bins], zero. Only the threads of one block access its bins.
void count_kernel(Array x, Array counts, Tile low, Tile high, Tile tiles, int size) {
  Tile bins = counts.dim(1), first = bid(0) * tiles;
  View parts = x.tiled_view({size});
  for (Tile i : range(first, min(first + tiles, parts.num_tiles(0)))) {
    Tile value = parts.load({i}, -inf).astype(f32);  // outside the array, the value is outside the bins
    Tile bin = floor((value - low) / (high - low) * bins.astype(f32));
    Tile inside = (value >= low) & (value <= high);  // false for NaN
    bin = where(inside, bin, 0.0).astype(i32);
    atomic_add(counts, {bid(0), min(bin, bins - 1)}, 1,
               {.order = MemoryOrder::relaxed, .scope = MemoryScope::block, .mask = inside});
  }
}
Kernel count("histogram_count", count_kernel);

void sum_kernel(Array counts, Array out, int rows, int bins) {
  View parts = counts.tiled_view({rows, bins});
  Tile total = zeros({bins}, i64);
  for (Tile i : range(parts.num_tiles(0))) total += parts.load({i, bid(0)}).astype(i64).sum(0);
  out.tiled_view({bins}).store({bid(0)}, total);
}
Kernel sum("histogram_sum", sum_kernel);

const auto histogram =
    op("kernels::histogram(Tensor x, int bins, float low, float high) -> Tensor counts")
        .outputs([](const at::Tensor& x, int64_t bins, double low, double high) {
          if (x.dim() != 1) fail(ErrorKind::value, "x is ", x.sym_sizes(), "; pass a vector");
          if (bins < 1 || bins > 1 << 20) fail(ErrorKind::value, "bins is ", bins, "; pass 1 to 2^20");
          if (!(low < high)) fail(ErrorKind::value, "low is ", low, " and high ", high, "; pass low < high");
          return at::empty_symint({bins}, x.options().dtype(at::kLong));
        })
        .run([](const at::Tensor& x, int64_t bins, double low, double high, at::Tensor& out) {
          const int size = x.is_cpu() ? 16384 : 4096;
          // More blocks than run at once would only add bins to sum.
          const int64_t tiles = ceil_div(x.size(0), size), most = x.is_cpu() ? 16 : 528;
          const int64_t each = std::max<int64_t>(1, ceil_div(tiles, most)), blocks = ceil_div(tiles, each);
          const at::Tensor counts = at::empty({blocks, bins}, x.options().dtype(at::kInt)).zero_();
          count.launch({blocks}, x, counts, static_cast<float>(low), static_cast<float>(high),
                       static_cast<int>(each), size);
          sum.launch({ceil_div(bins, 128)}, counts, out, 32, 128);
        });

}  // namespace
