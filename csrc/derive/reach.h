// Proofs from the indices of accesses that blocks and iterations do not reach the same elements of an array.
#pragma once
#include <vector>

#include "ir/op.h"

namespace tile {

struct Reach {
  std::vector<int> shared;  // grid axes along which several blocks may reach one element
  bool once = true;         // no block reaches an element twice
};

// Of all accesses to one array that are given.
Reach reach_of(const Function& function, const std::vector<const Op*>& accesses);

// Returns a loop or the function's grid axis that an access of picked elements ignores; empty: there is none.
std::string ignored_by(const Function& function, const Op& access);

}  // namespace tile
