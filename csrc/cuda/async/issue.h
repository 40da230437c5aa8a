// Starts products and awaits them where their results are used, for kernels whose loops compute more than
// products.
#pragma once
#include "cuda/async/plan.h"

namespace tile::cuda {

// Rewrites the groups' region. A product starts where it stands, or as soon as its operands are known where
// all groups divide columns; the first op that uses its result awaits it, so that what stands between the two
// runs meanwhile. A ring's stage is awaited before the first product that reads it and freed behind the last.
// At the end of a block no product is in flight.
void issue_products(Function& function, const KernelArrays& arrays, const AsyncPlan& plan, Block& groups);

}  // namespace tile::cuda
