// Random numbers of the kernel language, in tiles of a given shape.
#include <ATen/ops/empty.h>

#include "tile/op.h"

namespace {

using namespace tile;  // NOLINT: kernels are written in the language

// Elements are numbered in memory order from `offset` on, or with `own_numbers` by a tile of numbers.
void draw_kernel(Array seed, Array out, Tile offset, Tile stream, int rows, int columns, int kind,
                 bool own_numbers) {
  Tile key = seed.tiled_view({1}).load({0}).reshape({});
  Tile row = (bid(1) * rows + arange(rows)).expand_dims(1).astype(i64);
  Tile column = (bid(0) * columns + arange(columns)).expand_dims(0).astype(i64);
  Tile number = row * out.dim(1).astype(i64) + column + offset;
  const auto draw = [&](Shape shape, const Tile& first) {
    return kind == 0   ? random_bits(shape, key, first, out.dtype() == i64 ? u64 : u32, stream)
           : kind == 1 ? uniform(shape, key, first, out.dtype(), stream)
                       : normal(shape, key, first, out.dtype(), stream);
  };
  Tile drawn = own_numbers ? draw({rows, columns}, number)
                           : draw({rows, columns}, (bid(1) * rows).astype(i64) * out.dim(1).astype(i64) +
                                                       (bid(0) * columns).astype(i64) + offset);
  if (kind == 0) drawn = drawn.bitcast(out.dtype());
  out.tiled_view({rows, columns}).store({bid(1), bid(0)}, drawn);
}
Kernel draw("draw", draw_kernel);

at::Tensor like_seed(const at::Tensor& seed, c10::SymIntArrayRef sizes, at::ScalarType dtype) {
  return at::empty_symint(sizes, seed.options().dtype(dtype));
}

// kind: 0 bits (as int32 or int64), 1 uniform, 2 normal. The row length equals the tile's, unless each
// element has its own number.
const auto random_ =
    op("tt::random(Tensor seed, SymInt[2] size, int kind, ScalarType dtype, int[2] tile, int offset=0, int "
       "stream=0, bool own_numbers=True) -> Tensor")
        .outputs([](const at::Tensor& seed, c10::SymIntArrayRef size, int64_t, at::ScalarType dtype,
                    at::IntArrayRef, int64_t, int64_t, bool) { return like_seed(seed, size, dtype); })
        .run([](const at::Tensor& seed, c10::SymIntArrayRef, int64_t kind, at::ScalarType,
                at::IntArrayRef tile, int64_t offset, int64_t stream, bool own_numbers, at::Tensor& out) {
          draw.launch({ceil_div(out.size(1), tile[1]), ceil_div(out.size(0), tile[0])}, seed, out, offset,
                      stream, static_cast<int>(tile[0]), static_cast<int>(tile[1]), static_cast<int>(kind),
                      own_numbers);
        });

}  // namespace
