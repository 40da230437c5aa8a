// How many blocks a kernel's tiles are distributed over: one, or a cluster where its registers do not hold
// them.
#pragma once
#include "cuda/program.h"

namespace tile::cuda {

// Register bytes of the tiles that a kernel keeps at once: those that were read or summed, in the width
// that they have there. What is computed from them element by element takes nothing: it is not kept.
struct Kept {
  int64_t bytes = 0;
  int64_t largest = 0;  // tile
};
Kept kept_tiles(const Function& function);

// More than one block where the largest tile is too much for one; so many that all tiles have room.
struct Cluster {
  int blocks = 1;
  int64_t kept = 0;  // bytes a block
};
Cluster cluster_of(const Function& function, const Target& target, const Configuration& configuration);

}  // namespace tile::cuda
