// A move of elements through shared memory. The order of the elements there lets threads access vectors as
// wide as their layouts allow, with as few bank conflicts as possible.
#pragma once
#include <optional>
#include <vector>

#include "cuda/index_modes.h"
#include "cuda/layout.h"
#include "ir/op.h"

namespace tile::cuda {

struct SharedMove {
  // Bits [from, from + bits) of an element's offset flip the bits from `to` on.
  struct Fold {
    int from, to, bits;
  };
  // One side of the move: the writes or the reads of a thread.
  struct Side {
    int together = 1;          // elements per access
    std::vector<int64_t> at;   // for each access, what its registers add to the offset, in elements
    std::vector<Mode> thread;  // what the thread's lane, warp and block add
    int passes = 0;            // of a warp over all accesses, and the minimum
    int least = 0;
  };
  Side write, read;
  std::vector<int> given;  // the register of element e of write i: [i * together + e]
  std::vector<int> taken;  // the index into the elements read, for each result register
  std::vector<Fold> folds;
  int64_t elements = 1;  // in shared memory

  int64_t folded(int64_t offset) const;
  int64_t exchanged() const;  // bits of the offset that folds change
  // Returns the offset of the first element of access i, in elements.
  int64_t offset(const Side& side, int block, int thread, int i) const;
};

// Returns the element order that needs the fewest shared memory cycles; none if the modes of the two layouts
// overlap without a common split.
std::optional<SharedMove> shared_move(const Layout& from, const Weights& from_weights, const Layout& to,
                                      const Weights& to_weights, int element_bytes, int threads);

}  // namespace tile::cuda
