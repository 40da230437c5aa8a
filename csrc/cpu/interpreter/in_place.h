// In-place loads: tiles that the kernel changes and writes back to the same elements, as in x[i] = f(x[i]).
#pragma once
#include <unordered_set>
#include <vector>

#include "ir/op.h"

namespace tile::cpu {

// Other loads of arrays that are written must be copied out of memory. These need not be: every reader is a
// step of the value that the only store into the array writes to the same elements, so it runs before the
// store, or chunk by chunk with it in a fused loop. No memory-ordering op separates a load from its readers;
// otherwise another block might have written the elements in between.
struct InPlaceLoads {
  std::unordered_set<const Op*> loads;
  // Stores into disjoint parts of one array, and loads of these parts whose readers are steps of any of the
  // stores. The loads stay among `loads` only if all their readers run no later than the first of the stores.
  struct Several {
    std::unordered_set<const Op*> loads, stores, readers;
  };
  std::vector<Several> several;
};
InPlaceLoads find_in_place(const Function& function);

}  // namespace tile::cpu
