// Lets the CTAs of a persistent kernel draw blocks from a queue: a CTA whose blocks were short takes more of
// them.
#pragma once
#include "ir/op.h"

namespace tile::cuda {

// Rewrites the loops over the grid's blocks of a persistent kernel that is divided into roles. Each CTA
// begins with the block of its number. The producer draws the next block as it begins one, so that the answer
// has come when it ends, and tells it to the other roles.
void draw_blocks(Function& function);

}  // namespace tile::cuda
