// The tiles of sums that epilogues load and store through shared memory, where the copy unit (TMA) moves them
// while the groups compute.
#pragma once
#include <vector>

#include "cuda/async/copied_tile.h"

namespace tile::cuda {

// A tile of sums that is stored: a layout of 64 rows, which goes through a buffer one panel at a time. The
// copy unit moves the panels to the array. by_warps: no tensor map describes the array, so each warp writes
// its own rows.
struct PanelStore : CopiedTile {
  bool by_warps = false;
  int first = 0;           // the first panel's number among those of a block of the grid
  bool waits_all = false;  // the first panel's buffer was written last by the panel just before it
};

// The extents of an epilogue's tiles: the rows of the sums, and the most columns that groups can have.
struct EpilogueShape {
  int64_t rows, most_columns;
  bool persistent;  // the blocks of the grid are a loop
};

// Finds the stores that go through panels, all in one of the two ways; all others are written by each thread.
std::vector<PanelStore> panel_stores(const Function& function, const KernelArrays& arrays,
                                     const EpilogueShape& shape);

// Finds the loads, in the order of the kernel, of tiles that are added to, or multiplied by, and so on, what
// these stores store. A producer copies them before the sums are known. All have one layout; if their tiles
// differ, there are none.
std::vector<CopiedTile> epilogue_loads(const Function& function, const KernelArrays& arrays,
                                       const EpilogueShape& shape, const std::vector<PanelStore>& stores);

}  // namespace tile::cuda
