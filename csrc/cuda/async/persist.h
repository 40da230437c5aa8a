// Makes a kernel persistent: a launch has as many blocks as run at once, and each runs several blocks of the
// kernel's grid, so that the next block's copies begin while the last one stores its results.
#pragma once
#include "ir/op.h"

namespace tile::cuda {

// How the numbers of products of a grid's blocks differ.
enum class Work {
  even,      // they are equal, as far as known
  by_index,  // bounds of a loop around a product depend on the block's index
  by_data,   // and on elements of arrays that the block's index selects
};
Work work_of(const Function& function);

// Wraps the body in a loop over the grid's blocks. The function gets three more parameters, i32: the extents
// of the grid, whose product is below 2^31. The launch has one axis.
//
// Where the blocks' work is even, a block runs every num_blocks-th block of the grid. Where it follows from
// the index, neighbours in the grid have about the same and the first or last ones the most: the blocks take
// turns in alternating order, so that all of them have about the same in the end. Work that follows from data
// is not divided so; as blocks of a grid, the hardware starts them one after another where there is room.
void make_persistent(Function& function, Work work);

}  // namespace tile::cuda
