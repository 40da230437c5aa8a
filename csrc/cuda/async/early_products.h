// Begins products as soon as their operands are known.
#pragma once
#include "ir/op.h"

namespace tile::cuda {

// In blocks that compute operands of products: moves each product, with the loads of its operands, behind the
// last op that computes something for it. It then runs while the block computes what other products need.
// Products that may begin at the same place keep their order. The kernel computes the same bits.
void begin_products_early(Function& function);

}  // namespace tile::cuda
