// Blocks that add up parts of products, and the kernel that adds the parts.
#include "product_parts.h"

#include <bit>

#include "../common/arguments.h"

namespace tile {
namespace {

void add_parts_kernel(const PartsOf<Array, Tile>& of) {
  const auto& [parts, epilogue, at_once, bm, bn] = of;
  Tile i = bid(1), j = bid(0), batches = epilogue.out.dim(1), b0 = floordiv(bid(2), batches),
       b1 = mod(bid(2), batches);
  const View tiles = parts[{b0, b1}].tiled_view({1, bm, bn});
  Tile acc = zeros({bm, bn}, parts.dtype());
  for (Tile first : range(0, parts.dim(2), at_once)) {
    // Parts past the last one are zero.
    std::vector<Tile> loaded;
    for (int k = 0; k < at_once; ++k) loaded.push_back(tiles.load({first + k, i, j}).reshape({bm, bn}));
    for (const Tile& part : loaded) acc += part;
  }
  finish(epilogue, acc, std::nullopt, {b0, b1, i, j});
}
Kernel kernel("matmul_add_parts", add_parts_kernel);

}  // namespace

TileOfBlock tile_of_block(const Tile& rows, const Tile& columns, int together, bool paired) {
  if (together == 1) return {bid(0), bid(1)};
  if (paired) {
    const auto [pair, j] = tile_of_block(cdiv(rows, 2), columns, together / 2);
    return {pair * 2 + bid(1), j};
  }
  Tile block = bid(0), first = block / (columns * together) * together;
  Tile here = min(rows - first, together), rest = mod(block, columns * together);
  return {first + mod(rest, here), rest / here};
}

PartOfBlock part_of_block(const Array& x, const Array& out, bool batched,
                          const std::optional<Tile>& part_tiles) {
  PartOfBlock of{0, 0, 0, 0, part_tiles};
  if (batched) {
    Tile batches = out.dim(1);
    of.slot = floordiv(bid(2), batches), of.b1 = mod(bid(2), batches);
  } else if (part_tiles) {
    of.slot = bid(2);
  }
  if (!part_tiles) {
    of.b0 = of.slot;
    return of;
  }
  Tile part = of.slot;
  if (batched) part = floordiv(of.slot, x.dim(0)), of.b0 = mod(of.slot, x.dim(0));
  of.low = part * *part_tiles;
  return of;
}

at::Tensor sums_of_parts(const at::Tensor& like, at::ScalarType type, int64_t parts,
                         const std::array<int64_t, 2>& batches, int64_t m, int64_t n) {
  const at::ScalarType sums = type == at::kDouble ? at::kDouble : at::kFloat;
  return at::empty({parts * batches[0], batches[1], m, n}, like.options().dtype(sums));
}

void add_parts(const at::Tensor& sums, int64_t parts, const std::array<int64_t, 2>& batches,
               const detail::Launched<EpilogueOf<Array, Tile>>& epilogue) {
  const int64_t m = sums.size(2), n = sums.size(3), of_part = batches[0] * batches[1] * m * n;
  const ArrayArgument array =
      strided(sums, {batches[0], batches[1], parts, m, n}, {batches[1] * m * n, m * n, of_part, n, 1}, 0);
  // Small tiles make many blocks, which wait for memory at the same time.
  constexpr int bm = 1, bn = 128;
  const int at_once = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(parts, 8))));
  kernel.launch({ceil_div(n, bn), ceil_div(m, bm), batches[0] * batches[1]},
                {.parts = array, .epilogue = epilogue, .at_once = at_once, .bm = bm, .bn = bn});
}

}  // namespace tile
