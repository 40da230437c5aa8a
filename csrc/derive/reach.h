// Proofs from the indices of accesses that blocks and iterations do not reach the same elements of an array.
#pragma once
#include <vector>

#include "ir/op.h"

namespace tile {

struct Reach {
  std::vector<int> shared;  // grid axes along which several blocks may reach one element
  bool once = true;         // no block reaches an element twice
};

// accesses: all that are made to one array.
Reach reach_of(const Function& function, const std::vector<const Op*>& accesses);

// The tiles of an access along one axis of its array. They cover the axis if `whole`, or if as many tiles as
// there are blocks along `grid_axis` (-1: one tile) reach its end.
struct Cover {
  int grid_axis = -1;
  int64_t extent = 1;
  bool whole = false;
};
// Returns a Cover for each axis of the array parameter; none if nothing is known. blocks: null, or the number
// of blocks along a grid axis that a loop deals to the blocks of a launch.
std::vector<Cover> cover_of(const Op& access, const Value* blocks = nullptr);

std::vector<int> grid_axes(const Function& function);  // that it asks for, ascending

// Returns true if the address of an access is computed from loaded values.
bool is_loaded(const Op& access);
// Returns a loop or the function's grid axis that an access of picked elements ignores; empty: there is none.
std::string ignored_by(const Function& function, const Op& access);

}  // namespace tile
