// A move of elements between the lanes of a warp, by shuffles.
//
// A word is what a shuffle carries: an element, or neighbours of 8 or 16 bits. Where a mode of the index is
// read from the register before and from the lane behind, and another the other way round, the lane that
// gives and the one that takes agree on a word by exclusive or: registers are exchanged by a bit of the
// lane's number, shuffled, and exchanged again.
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
  // Words w and w ^ 1 << i are exchanged where the lane's bit `given` is set; behind the shuffle where its
  // bit `taken` is.
  struct Exchange {
    int given, taken;
  };
  int together = 1;          // elements of a word
  int words = 1;             // of the result
  std::vector<Bit> selects;  // which of 2 a lane gives: the first picks between words w and w + words
  std::vector<Exchange> exchanges;
  std::vector<int> from;   // the register of element e of word w, w counting selects too: [w * together + e]
  std::vector<int> to;     // of each register of the result word * together + element
  std::vector<Mode> lane;  // of the lane to take from: modes of the lane's and the warp's number
  std::vector<int> flips;  // a word: what is flipped in that lane's number
  bool own_lane = false;   // the lane's number is the own one, but for the flips

  int shuffles() const;  // of words
  int picks() const;     // selects of words, of which an exchange is two
  // The thread and the register of it that register r of a thread gets.
  std::pair<int, int> source(int thread, int r) const;
};

// None where an element is in another warp or block, or where lanes would have to give two words at once:
// then `why_not` says so.
std::optional<ShufflePlan> shuffle_plan(const Layout& from, const Weights& from_weights, const Layout& to,
                                        const Weights& to_weights, int element_bytes, int threads, int blocks,
                                        const char*& why_not);

}  // namespace tile::cuda
