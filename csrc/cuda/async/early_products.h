// Begins products as soon as their operands are known.
#pragma once
#include "ir/op.h"

namespace tile::cuda {

// In blocks that compute operands of products, or with the sums of several: moves each product, with the
// loads of its operands, behind the last op that computes something for it. It then runs while the block
// computes with other products. Products that may begin at the same place keep their order. The kernel
// computes the same bits.
void begin_products_early(Function& function);

}  // namespace tile::cuda
