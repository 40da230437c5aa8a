// The tiles of products: how many rows, columns and inner elements a block multiplies at once.
#pragma once
#include <optional>

#include "tile/op.h"

namespace tile {

struct TileSize {
  int m, n, k;
  bool operator==(const TileSize&) const = default;
};

// A product of [m, k] by [k, n] for each of so many batches.
struct ProductShape {
  int64_t m = 1, n = 1, k = 1, batches = 1;
  bool two = false;    // two right operands, and a sum for each
  int64_t summed = 1;  // so many products are added up
  // For warpgroup instructions: the bytes of an operand's element, whether each tile of k has a sum of its
  // own, which is added to another one in registers, and whether blocks of 128 columns, or of k, have scales.
  int64_t element = 2;
  bool promoted = false, blocks = false;
  bool rounded = false;  // operands of float32 are rounded to tf32
};

// How a GPU divides a product into blocks: a tile of the result, and parts of the inner extent with blocks of
// their own. Blocks add up part_tiles tiles of it; where there are several parts, another kernel adds their
// sums.
struct Division {
  TileSize tile;
  int64_t parts = 1, part_tiles = 0;
  bool chained = false;  // a block keeps a second sum, because it adds up more than tuning::chain_length
  bool operator==(const Division&) const = default;
};
// The divisions with the lowest estimated time, into at most so many parts, which need memory for their sums.
// For mma.sync and FMA kernels:
Division gpu_division(const ProductShape& shape, at::ScalarType type, int64_t most_parts);
// For warpgroup instructions. A tile of 192 or 256 columns with promoted sums is two products of half
// as many.
Division group_division(const ProductShape& shape, int64_t most_parts);

// Returns true if warpgroup instructions take less time where two blocks of neighbouring rows run together,
// which copy the right operand's tile once: if rows straddle lines of the cache and no multiprocessor has to
// run a block more. `straddles`: rows of an operand begin in the middle of a line, so that a copy of a
// row's part touches one line more.
bool pays_in_pairs(const ProductShape& shape, const Division& division, bool straddles);

// Numbers of left and right operands of tf32 that are copied so that they are contiguous along k, as
// warpgroup instructions require.
struct Copies {
  int left = 0, right = 0;
};
// The rows and columns of the result whose copies exist at a time: multiples of a tile's, unless they are
// all.
struct CopiedParts {
  int64_t rows, columns;
  bool operator==(const CopiedParts&) const = default;
};
// Returns the parts for copies of so many bytes at most, or nothing if the product takes less time on
// mma.sync.
std::optional<CopiedParts> copied_parts(const ProductShape& shape, const Copies& copies, int64_t most_bytes);

// Returns true if kernels of few rows can compute a product of m rows.
bool is_thin(int64_t m, int64_t k);
// A division for products of few rows without tensor cores: blocks of `rows` rows, at least m, which load
// `at_once` tiles of the right operand at once.
struct ThinDivision {
  Division of;
  int rows, at_once;
  bool operator==(const ThinDivision&) const = default;
};
// Facts about the right operand: whether its columns are contiguous, and whether threads load it in vectors
// of 16 bytes.
struct ThinOperand {
  bool along_k, vectors;
};
// Returns nothing where a product's tiles would not be filled, or other kernels take less time. by_groups:
// warpgroup instructions can compute it.
std::optional<ThinDivision> thin_division(const ProductShape& shape, at::ScalarType type,
                                          const ThinOperand& operand, bool by_groups, int64_t most_parts);

// The choice of all products on a GPU: 0 where estimates decide. Tests and measurements set others. parts: of
// any kernel. m, n, k: the tile of warpgroup instructions, or of kernels of few rows. thin: 1 for the latter
// wherever they can run, -1 for others. at_once: as ThinDivision's. copied_bytes: operands of tf32 that do
// not lie along k are always copied, so many bytes at a time at most.
struct ForcedDivision {
  int64_t parts = 0, m = 0, n = 0, k = 0, thin = 0, at_once = 0, copied_bytes = 0;
  int64_t pairs = 0;  // 1: kernels on warpgroup instructions run in pairs of blocks; -1: they do not
};
extern ForcedDivision forced_division;

// packed_bytes: the size of the packed left operand. in_rows: rows of the right operand are contiguous.
TileSize cpu_tile_size(const ProductShape& shape, int64_t packed_bytes, bool in_rows, int threads);

}  // namespace tile
