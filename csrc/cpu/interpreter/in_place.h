// Loads of tiles that the kernel writes back, changed, to where they came from: x[i] = f(x[i]).
#pragma once
#include <unordered_set>
#include <vector>

#include "ir/op.h"

namespace tile::cpu {

// They need not be copied out of memory, as other loads of arrays that are written must: whatever reads one
// is a step of what the only store into its array writes to the same elements, so that it runs before, or, in
// a fused loop, chunk by chunk with it. No memory-ordering op comes between a load and its readers: otherwise
// another block might have written there in the meantime.
struct InPlaceLoads {
  std::unordered_set<const Op*> loads;
  // Stores into parts of one array that are apart, and loads of these parts that are steps of any of them:
  // they are among `loads` while all that reads them runs no later than the first of the stores.
  struct Several {
    std::unordered_set<const Op*> loads, stores, readers;
  };
  std::vector<Several> several;
};
InPlaceLoads find_in_place(const Function& function);

}  // namespace tile::cpu
