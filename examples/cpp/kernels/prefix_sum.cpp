// Prefix sums of a vector over many blocks, in three launches: the sum of each part, the sums of the parts
// before it, and the part's own prefix sums. 05_running_sum.cpp needs one launch, but its blocks wait for
// each other.
#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

// Floats are added in float64, integers wrap at 64 bits.
DType sum_dtype(const Array& x) { return x.dtype() == i32 || x.dtype() == i64 ? i64 : f64; }

void part_sums_kernel(Array x, Array sums, int part) {
  scatter(sums, {bid(0)}, x.tiled_view({part}).load({bid(0)}).astype(sum_dtype(x)).sum());
}
Kernel part_sums("part_sums", part_sums_kernel);

// Works in place, in one block: sums[i] becomes the sum of all before it. A part has thousands of numbers, so
// there are few sums.
void sums_before_kernel(Array sums, int size) {
  View tiles = sums.tiled_view({size});
  Tile before = zeros({}, sums.dtype());
  for (Tile i : range(tiles.num_tiles(0))) {
    Tile tile = tiles.load({i});
    tiles.store({i}, tile.cumsum(0) - tile + before);
    before += tile.sum();
  }
}
Kernel sums_before("sums_before", sums_before_kernel);

void prefix_sums_kernel(Array x, Array before, Array out, int part) {
  Tile tile = x.tiled_view({part}).load({bid(0)}).astype(sum_dtype(x));
  out.tiled_view({part}).store({bid(0)}, tile.cumsum(0) + gather(before, {bid(0)}));
}
Kernel prefix_sums("prefix_sums", prefix_sums_kernel);

const auto prefix_sum =
    op("kernels::prefix_sum(Tensor x) -> Tensor out")
        .outputs([](const at::Tensor& x) {
          if (x.dim() != 1) fail(ErrorKind::value, "x is ", x.sym_sizes(), "; pass a vector");
          return at::empty_like(x);
        })
        .run([](const at::Tensor& x, at::Tensor& out) {
          const int part = x.is_cpu() ? 16384 : 4096;
          const int64_t parts = ceil_div(x.size(0), part);
          if (parts == 0) return;
          const at::Tensor sums =
              at::empty({parts}, x.options().dtype(x.is_floating_point() ? at::kDouble : at::kLong));
          part_sums.launch({parts}, x, sums, part);
          sums_before.launch({1}, sums, 1024);
          prefix_sums.launch({parts}, x, sums, out, part);
        });

}  // namespace
