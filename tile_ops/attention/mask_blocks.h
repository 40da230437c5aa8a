// A mask summed up once a call, so that kernels visit only the tiles of which it leaves something, and read
// it only where it hides a part of a tile.
#pragma once
#include "kernels.h"
#include "tile/op.h"

namespace tile::attention {

// The keys that options leave a query, as in rules. A summary says what these and the mask leave together.
struct SeenKeys {
  int offset;
  std::optional<int> first;
};

// Returns true if a summary pays for its launches, and if the tiles are whole blocks of it.
bool pays_for_summary(int64_t rows, int64_t keys, const TileSize& tile);

// Returns the bytes of the bits of so many masks, whichever rows they have.
int64_t bytes_of_bits(int64_t masks, int64_t rows, int64_t keys);

// The rows of the bits: those of queries, those of keys, or none.
enum class BitsOf { nothing, queries, keys };
class MaskSummary {
 public:
  // mask: [batch or 1, heads or 1, query, key], bool or floating.
  MaskSummary(const at::Tensor& mask, const SeenKeys& seen, BitsOf bits);

  // The tiles of keys that each tile of queries visits, and those of queries that each tile of keys visits,
  // for so many samples and heads.
  Visits<at::Tensor> keys_of_queries(const TileSize& tile, int64_t batch, int64_t heads) const;
  Visits<at::Tensor> queries_of_keys(const TileSize& tile, int64_t batch, int64_t heads) const;

  // The memory that it takes. Bits may be given back once no kernel is launched with them.
  int64_t bytes() const;
  void drop_bits() { bits_.reset(), bits_of_ = BitsOf::nothing; }

 private:
  at::Tensor lists(int rows, int cols, bool by_keys) const;

  BitsOf bits_of_;
  bool adds_;
  at::Tensor flags_, bits_;
};

}  // namespace tile::attention
