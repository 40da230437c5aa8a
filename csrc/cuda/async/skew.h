// Moves the last product of a loop to the next iteration, where it runs while that iteration computes what
// its own last product needs.
#pragma once
#include "ir/op.h"

namespace tile::cuda {

// A loop whose last product adds to a carried sum, and whose other ops compute that product's left operand
// from another product, becomes
//
//   for j in low .. low + 1    { operand(j) }
//   for j in low + 1 .. high   { first product of operand(j); sum of j - 1; rest of operand(j) }
//   for j in high - 1 .. high  { sum of j }
//
// The parts of a loop that split_loops has made are one loop here. Loops of another step than 1 stay as they
// are, and those whose tiles a thread's registers would not hold. The kernel computes the same bits.
//
// Scalars that only depend on the iteration, such as an index that is loaded from an array, are computed for
// both.
void skew_loops(Function& function);

}  // namespace tile::cuda
