// A move of elements between the lanes of a warp, by shuffles.
//
// A shuffle carries a word: one element, or several adjacent ones of 8 or 16 bits. If one mode of the index
// moves from the register to the lane and another moves from the lane to the register, sender and receiver
// agree on a word by exclusive or: registers are exchanged by a bit of the lane number, shuffled, and
// exchanged again.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "cuda/index_modes.h"
#include "cuda/layout.h"
#include "ir/op.h"

namespace tile::cuda {

struct ShufflePlan {
  struct Bit {
    Level level;  // lane or warp
    int bit;
  };
  // Words w and w ^ 1 << i are exchanged before the shuffle if the lane's bit `given` is set, and after it if
  // bit `taken` is set.
  struct Exchange {
    int given, taken;
  };
  int together = 1;          // elements per word
  int words = 1;             // words of the result
  std::vector<Bit> selects;  // which of 2 words a lane sends: bit 0 picks w or w + words
  std::vector<Exchange> exchanges;
  std::vector<int> from;   // the register of element e of word w, which includes selects: [w * together + e]
  std::vector<int> to;     // for each result register, word * together + element
  std::vector<Mode> lane;  // the source lane: modes of the lane and warp numbers
  std::vector<int> flips;  // per word, the bits to flip in the source lane's number
  bool own_lane = false;   // apart from flips, the source lane is the own lane

  int shuffles() const;  // one per word
  int picks() const;     // selects of words; an exchange is two
  // Returns the source thread and register of register r of a thread.
  std::pair<int, int> source(int thread, int r) const;
};

// Returns none if an element would move to another warp or block, or if a lane would have to send two words
// at once; `why_not` then gives the reason.
std::optional<ShufflePlan> shuffle_plan(const Layout& from, const Weights& from_weights, const Layout& to,
                                        const Weights& to_weights, int element_bytes, int threads, int blocks,
                                        const char*& why_not);

}  // namespace tile::cuda
