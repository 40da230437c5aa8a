// Chooses how many CTAs a tile is distributed over: one, or a cluster if the registers of one CTA
// are too few.
#pragma once
#include "cuda/program.h"

namespace tile::cuda {

// Register bytes of the tiles that are live at once, in the dtype that the kernel keeps them in.
// Only tiles that are loaded or reduced count; elementwise results are recomputed and not kept.
struct LiveTiles {
  int64_t bytes = 0;
  int64_t largest = 0;  // of one tile
};
LiveTiles live_tiles(const Function& function);

// The cluster has more than one CTA if the largest tile is too large for one, and enough CTAs for
// all live tiles.
struct Cluster {
  int blocks = 1;
  int64_t tile_bytes = 0;  // per CTA
};
Cluster cluster_of(const Function& function, const Target& target, const Configuration& configuration);

}  // namespace tile::cuda
