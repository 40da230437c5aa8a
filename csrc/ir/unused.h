// Removal of ops that a rewrite has left without use.
#pragma once
#include "ir/op.h"

namespace tile {

// Removes pure ops and loads of the block and of nested ones whose results nothing in the block uses.
void remove_unused(Block& block);

}  // namespace tile
