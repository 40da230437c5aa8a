// Compares the columns of a tile once where they have two limits.
#pragma once
#include "ir/op.h"

namespace tile::cuda {

// Where a mask says that a column is below the extent of an array and at most its row's limit, as causal
// attention does: lets the row's limit be the lesser of both, so that an element is compared once. A thread
// of a group has two rows of a product's sums, and many columns. The mask is the same.
void merge_limits(Function& function);

}  // namespace tile::cuda
