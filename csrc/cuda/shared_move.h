// A move of elements through shared memory: where each stands there, so that threads write and read as many
// neighbours at once as they have, and meet in no bank where that can be had.
#pragma once
#include <optional>
#include <vector>

#include "cuda/index_modes.h"
#include "cuda/layout.h"
#include "ir/op.h"

namespace tile::cuda {

struct SharedMove {
  // Bits of an element's offset, `bits` of them from `from` on, flip those from `to` on.
  struct Fold {
    int from, to, bits;
  };
  // One side: what a thread writes, or reads.
  struct Side {
    int together = 1;          // elements of an access
    std::vector<int64_t> at;   // of each access what its registers add to the offset, in elements
    std::vector<Mode> thread;  // what the thread adds: of lane, warp and block
    int passes = 0;            // of a warp over all accesses, and the least that they could take
    int least = 0;
  };
  Side write, read;
  std::vector<int> given;  // the register of element e of write i: [i * together + e]
  std::vector<int> taken;  // of each register of the result, which of the elements read
  std::vector<Fold> folds;
  int64_t elements = 1;  // of shared memory

  int64_t folded(int64_t offset) const;
  int64_t exchanged() const;  // bits of the offset that folds change
  // Returns the offset of the first element of access i, in elements.
  int64_t offset(const Side& side, int block, int thread, int i) const;
};

// Returns the order of the elements that needs the fewest shared memory cycles. None where the modes of one
// layout cut through those of the other.
std::optional<SharedMove> shared_move(const Layout& from, const Weights& from_weights, const Layout& to,
                                      const Weights& to_weights, int element_bytes, int threads);

}  // namespace tile::cuda
