// Chooses how many CTAs a tile is distributed over: one, or a cluster if the registers of one CTA
// are too few.
#pragma once
#include "cuda/program.h"

namespace tile::cuda {

// Register bytes of the tiles that are live at once, in the dtype that the kernel keeps them in.
// Only tiles that are loaded or reduced count; elementwise results are recomputed and not kept.
struct Kept {
  int64_t bytes = 0;
  int64_t largest = 0;  // of one tile
};
Kept kept_tiles(const Function& function);

// The cluster has more than one CTA if the largest tile is too large for one, and enough CTAs for
// all kept tiles.
struct Cluster {
  int blocks = 1;
  int64_t kept = 0;  // bytes per CTA
};
Cluster cluster_of(const Function& function, const Target& target, const Configuration& configuration);

}  // namespace tile::cuda
