// Few sizes, so that few kernels are compiled. Fixed numbers: results do not depend on the machine.
#include "tiles.h"

#include <algorithm>
#include <limits>

#include "../common/derivation.h"
#include "../common/tuning.h"

namespace tile {
namespace {

int64_t blocks_of(const ProductShape& shape, int64_t rows, int64_t columns) {
  return ceil_div(shape.m, rows) * ceil_div(shape.n, columns) * shape.batches;
}

// The sums of parts are written and read, by one launch more.
int64_t parts_cycles(const ProductShape& shape, int64_t parts) {
  if (parts == 1) return 0;
  return tuning::second_launch_cycles + parts * shape.m * shape.n * shape.batches / tuning::part_sums_a_cycle;
}
// The operands come from memory.
int64_t memory_cycles(const ProductShape& shape, int64_t element) {
  const int64_t elements = (shape.m + shape.n * (shape.two ? 2 : 1)) * shape.k * shape.summed * shape.batches;
  return elements * element / tuning::memory_bytes_a_cycle;
}

// A tile, and the parts that leave no block without tiles.
Division divided(const ProductShape& shape, const TileSize& tile, int64_t parts) {
  Division division{.tile = tile};
  const int64_t tiles = ceil_div(shape.k, tile.k);
  division.part_tiles = ceil_div(tiles, parts);
  if (parts > 1) division.parts = ceil_div(tiles, division.part_tiles);
  // 8-bit floats have promoted sums, or the caller wants none.
  division.chained = shape.element > 1 &&
                     std::min(division.part_tiles * tile.k, shape.k) * shape.summed > tuning::chain_length;
  return division;
}

// Keeps the division that takes least; of equal ones the first.
template <class D>
struct Least {
  D best{};
  int64_t cycles = std::numeric_limits<int64_t>::max();
  void add(const D& division, int64_t takes) {
    if (takes < cycles) best = division, cycles = takes;
  }
};

// Memory and the multiprocessors work at the same time, but not quite.
int64_t overlapped(int64_t memory, int64_t computed) {
  return std::max(memory, computed) + std::min(memory, computed) / 4;
}

// Calls add(parts) for one part, and for so many parts that all blocks run at once, `slots` of them, twice or
// four times as many.
template <class F>
void for_parts(int64_t blocks, int64_t slots, int64_t most, const F& add) {
  if (forced_division.parts) return add(std::max<int64_t>(1, std::min(forced_division.parts, most)));
  int64_t before = 1;
  add(before);
  for (const int64_t times : {1, 2, 4}) {
    const int64_t parts = std::min(times * slots / std::max<int64_t>(blocks, 1), most);
    if (parts <= before) continue;
    add(parts);
    before = parts;
  }
}

// Estimates the cycles of a product on a GPU that runs a block on each multiprocessor at a time.
int64_t group_cycles(const ProductShape& shape, const Division& of) {
  const auto& [rows, columns, depth] = of.tile;
  const int64_t multiplied = columns * (shape.two ? 2 : 1);
  // An iteration takes the time of its products or of its operands' way from the L2 cache, and some for
  // barriers.
  const int64_t products = rows * multiplied * depth * shape.element / 2 / tuning::group_products_a_cycle;
  const int64_t operands = (rows + multiplied) * depth * shape.element / tuning::l2_bytes_a_cycle;
  // Where there are two groups, one multiplies while the other adds.
  const int64_t added = shape.promoted && rows == 64 ? rows * multiplied / tuning::group_sums_a_cycle : 0;
  const int64_t iteration =
      std::max({products, operands, tuning::group_iteration_cycles}) + tuning::group_barrier_cycles + added;
  const int64_t stored = rows * multiplied / tuning::group_stores_a_cycle;
  const int64_t waves = ceil_div(blocks_of(shape, rows, columns) * of.parts, tuning::multiprocessors);
  return overlapped(memory_cycles(shape, shape.element), waves * (of.part_tiles * iteration + stored)) +
         parts_cycles(shape, of.parts);
}

// A tile of float32: a thread holds 128, 64 or 32 sums. The products of a cycle are those of a full
// multiprocessor, whose 128 lanes also load operands, more often the fewer sums a thread has. Warps count as
// those of 64 sums.
struct FmaTile {
  TileSize size;
  int64_t products_a_cycle;
};
constexpr FmaTile fma_tiles[] = {{{128, 128, 32}, 110}, {{128, 64, 32}, 106}, {{64, 64, 32}, 92}};
constexpr int64_t fma_sums_a_warp = 64 * 32;

// Estimates the cycles of a product of float32, whose blocks share multiprocessors.
int64_t fma_cycles(const ProductShape& shape, const Division& of, const FmaTile& tile) {
  const auto& [rows, columns, depth] = of.tile;
  const int64_t sums = int64_t{rows} * columns * (shape.two ? 2 : 1),
                warps = std::max<int64_t>(sums / fma_sums_a_warp, 4),
                blocks = ceil_div(blocks_of(shape, rows, columns) * of.parts, tuning::multiprocessors),
                running = std::min(blocks * warps, tuning::fma_warps);
  const int64_t full =
                    tile.products_a_cycle * (tuning::fma_warps + tuning::fma_half_warps) / tuning::fma_warps,
                a_cycle = full * running / (running + tuning::fma_half_warps);
  return overlapped(memory_cycles(shape, 4), blocks * of.part_tiles * sums * depth / a_cycle) +
         parts_cycles(shape, of.parts);
}

// The same of other mma.sync and FMA kernels, of which two blocks run on a multiprocessor at a time.
int64_t gpu_cycles(const ProductShape& shape, const Division& of, at::ScalarType type) {
  const auto& [rows, columns, depth] = of.tile;
  const int64_t products = int64_t{rows} * columns * depth * (shape.two ? 2 : 1),
                a_cycle = shape.rounded         ? tuning::warp_products_a_cycle / 2
                          : type == at::kFloat  ? tuning::fma_products_a_cycle
                          : type == at::kDouble ? tuning::double_products_a_cycle
                                                : tuning::warp_products_a_cycle,
                iteration = std::max(products / a_cycle, tuning::warp_iteration_cycles);
  const int64_t waves = ceil_div(blocks_of(shape, rows, columns) * of.parts, tuning::two_blocks_each);
  return overlapped(memory_cycles(shape, static_cast<int64_t>(c10::elementSize(type))),
                    waves * of.part_tiles * iteration) +
         parts_cycles(shape, of.parts);
}

}  // namespace

ForcedDivision forced_division;

namespace {

Least<Division> least_of_groups(const ProductShape& shape, int64_t most_parts) {
  struct Tile {
    int m, n;
  };
  // From large to small: of equal times the first wins, which reads operands less often.
  constexpr Tile tiles[] = {{128, 256}, {128, 192}, {128, 128}, {64, 128}, {128, 64}, {64, 64}};
  Least<Division> least;
  const auto add = [&](const TileSize& tile) {
    const int64_t most = std::min(most_parts, ceil_div(shape.k, tile.k));
    for_parts(blocks_of(shape, tile.m, tile.n), tuning::multiprocessors, most, [&](int64_t parts) {
      const Division division = divided(shape, tile, parts);
      // The registers of a group hold 64 x 256 sums, or 64 x 256 and 64 x 128 that are added to them.
      if (tile.n > (shape.two || division.chained ? 128 : 256) / (is_differentiated() ? 2 : 1)) return;
      if (shape.blocks && tile.n > 128 && !(shape.promoted && tile.n == 256)) return;
      least.add(division, group_cycles(shape, division));
    });
  };
  if (const auto& forced = forced_division; forced.m)
    add({static_cast<int>(forced.m), static_cast<int>(forced.n), static_cast<int>(forced.k)});
  else
    for (const Tile& tile : tiles)
      add({tile.m, tile.n, tuning::group_depth_bytes / static_cast<int>(shape.element)});
  return least;
}

TileSize gpu_tile_size(const ProductShape& shape, at::ScalarType type) {
  // Thin results first, then those too small to make a block for each thread.
  const bool small = type == at::kHalf || type == at::kBFloat16 || shape.rounded;
  const int k = shape.rounded || type == at::kFloat ? 32 : type == at::kDouble ? 16 : 64;
  if (shape.m <= 16) return {16, 128, k};
  if (shape.n <= 16) return {128, 16, k};
  // Two sums take as many registers as one of twice the columns.
  if (shape.two) return small ? TileSize{128, 64, k} : TileSize{64, 32, 16};
  const bool enough = blocks_of(shape, 128, 128) >= tuning::enough_large_tiles;
  return small && enough ? TileSize{128, 128, k} : TileSize{64, 64, k};
}

Least<Division> least_of_others(const ProductShape& shape, at::ScalarType type, int64_t most_parts) {
  Least<Division> least;
  const auto add = [&](const TileSize& tile, const auto& cycles) {
    const int64_t most = std::min(most_parts, ceil_div(shape.k, tile.k));
    for_parts(blocks_of(shape, tile.m, tile.n), tuning::multiprocessors, most, [&](int64_t parts) {
      const Division division = divided(shape, tile, parts);
      least.add(division, cycles(division));
    });
  };
  if (type == at::kFloat && !shape.rounded && std::min(shape.m, shape.n) > 16) {
    for (const FmaTile& tile : fma_tiles)
      // A block of 128 x 128 has no registers for two sums.
      if (!shape.two || tile.size.n < 128)
        add(tile.size, [&](const Division& division) { return fma_cycles(shape, division, tile); });
  } else {
    add(gpu_tile_size(shape, type),
        [&](const Division& division) { return gpu_cycles(shape, division, type); });
  }
  return least;
}

}  // namespace

Division group_division(const ProductShape& shape, int64_t most_parts) {
  return least_of_groups(shape, most_parts).best;
}
bool pays_in_pairs(const ProductShape& shape, const Division& division, bool straddles) {
  const auto& [rows, columns, _] = division.tile;
  const int64_t row_tiles = ceil_div(shape.m, rows);
  // Parts of the inner extent have blocks of unequal length, which the hardware distributes.
  if (row_tiles < 2 || division.parts > 1) return false;
  if (forced_division.pairs) return forced_division.pairs > 0;
  // Where rows straddle cache lines, each line is read twice, and L2 does not keep up. Elsewhere it does, and
  // pairs gain nothing.
  const int64_t blocks = blocks_of(shape, rows, columns),
                in_pairs = blocks / row_tiles * (row_tiles + row_tiles % 2);
  return straddles && blocks >= tuning::enough_large_tiles &&
         ceil_div(in_pairs, tuning::multiprocessors) <= ceil_div(blocks, tuning::multiprocessors);
}

Division gpu_division(const ProductShape& shape, at::ScalarType type, int64_t most_parts) {
  return least_of_others(shape, type, most_parts).best;
}

std::optional<CopiedParts> copied_parts(const ProductShape& shape, const Copies& copies, int64_t most_bytes) {
  constexpr int64_t whole = 256;  // rows or columns of the largest tile
  if (forced_division.copied_bytes) most_bytes = forced_division.copied_bytes;
  const int64_t a_line = shape.k * shape.element, left = copies.left * a_line, right = copies.right * a_line,
                sides = (copies.left ? 1 : 0) + (copies.right ? 1 : 0);
  const auto fitting = [&](int64_t extent, int64_t line) {
    if (!line) return extent;
    const int64_t most = most_bytes / sides / line;
    if (extent <= most) return extent;
    // Equal parts: blocks of the last one would not fill the GPU if it were small.
    const int64_t count = ceil_div(extent, std::max<int64_t>(most / whole * whole, 1));
    return most < whole ? 0 : ceil_div(ceil_div(extent, count), whole) * whole;
  };
  const CopiedParts parts{fitting(shape.m, left), fitting(shape.n, right)};
  if (!parts.rows || !parts.columns) return {};
  // The right operand is copied again for each part of rows.
  const int64_t row_parts = ceil_div(shape.m, parts.rows),
                launches = row_parts * ceil_div(shape.n, parts.columns),
                bytes = 2 * (shape.m * left + row_parts * shape.n * right);
  const ProductShape part{.m = std::min(parts.rows, shape.m),
                          .n = std::min(parts.columns, shape.n),
                          .k = shape.k,
                          .two = shape.two,
                          .element = shape.element,
                          .rounded = true};
  const int64_t copied = bytes / tuning::copied_bytes_a_cycle +
                         (row_parts * copies.left + launches * copies.right) * tuning::second_launch_cycles,
                multiplied = launches * least_of_groups(part, 1).cycles;
  if (!forced_division.copied_bytes && copied + multiplied >= least_of_others(shape, at::kFloat, 1).cycles)
    return {};
  return parts;
}

bool is_thin(int64_t m, int64_t k) {
  return forced_division.thin >= 0 && m <= tuning::thin_rows && k >= tuning::thin_inner_extent;
}

std::optional<ThinDivision> thin_division(const ProductShape& shape, at::ScalarType type,
                                          const ThinOperand& operand, bool by_groups, int64_t most_parts) {
  if (!is_thin(shape.m, shape.k)) return {};
  // Warpgroup instructions are faster for several rows.
  if (by_groups && !forced_division.thin && shape.m > 1) return {};
  const auto element = static_cast<int64_t>(c10::elementSize(type));
  const int rows = shape.m <= 2 ? static_cast<int>(shape.m) : 4, sums = rows * (shape.two ? 2 : 1);
  // The threads of a block hold a sum of each element of a tile in registers for each row. They load 32 KiB
  // at once, or half of that beside many sums. Loads of single elements take more registers, of which the
  // compiler gives threads of one tile and one row too few.
  const bool many = sums > 2;
  const int elements = many || element == 8 || !operand.vectors ? 2048 : 4096;
  int at_once = std::min(4, static_cast<int>((many ? 16 : 32) * tuning::kib / (elements * element)));
  if (!operand.vectors) at_once = sums == 1 ? 2 : 1;
  // Threads read along the contiguous axis. Few columns leave threads for more of the inner extent; of many,
  // tiles are wider, because fewer blocks begin and end less often.
  int bn = shape.k < 512 || (!operand.along_k && shape.n > 8)      ? 32
           : operand.along_k && shape.n >= tuning::thin_wide_tiles ? 16
                                                                   : 8;
  int bk = elements / bn;
  if (const auto& forced = forced_division; forced.n)
    bn = static_cast<int>(forced.n), bk = static_cast<int>(forced.k),
    at_once = static_cast<int>(forced.at_once);
  const TileSize tile{rows, bn, bk};
  const int64_t most = std::min(most_parts, ceil_div(shape.k, bk * at_once)),
                blocks = blocks_of(shape, shape.m, bn);
  Least<Division> least;
  for_parts(blocks, tuning::multiprocessors, most, [&](int64_t parts) {
    const int64_t loads = ceil_div(shape.k, bk * at_once), of_part = ceil_div(loads, parts),
                  count = ceil_div(loads, of_part), waves = ceil_div(blocks * count, tuning::two_blocks_each);
    const Division division{.tile = tile, .parts = count, .part_tiles = of_part * at_once};
    least.add(division,
              overlapped(memory_cycles(shape, element), waves * of_part * tuning::thin_iteration_cycles) +
                  parts_cycles(shape, count));
  });
  return ThinDivision{least.best, rows, at_once};
}

TileSize cpu_tile_size(const ProductShape& shape, int64_t packed_bytes, bool in_rows, int threads) {
  // Rows of the right operand are read in place, and faster in long runs.
  for (int columns = 1024; in_rows && shape.m <= 8 && columns > 256; columns /= 2)
    if (shape.batches * (shape.n / columns) >= 2 * threads) return {16, columns, 256};
  if (shape.m <= 16) return {16, 256, 256};
  if (shape.n <= 16) return {128, 16, 256};
  const int64_t blocks = blocks_of(shape, 128, 256);
  if (blocks < 8) return {64, 64, 256};
  // Wide blocks pack x less often, high ones y, of which two products have two.
  if (shape.two) return blocks < 64 ? TileSize{128, 256, 256} : TileSize{256, 256, 256};
  // Threads share what they pack, so that blocks may be small and many, for threads that are not equally
  // fast: as long as a packed x stays.
  const bool small = shape.m > 128 && blocks_of(shape, 64, 128) <= tuning::cpu_product_blocks &&
                     packed_bytes <= tuning::cpu_packed_bytes;
  return small ? TileSize{64, 128, 256} : TileSize{128, 256, 256};
}

}  // namespace tile
