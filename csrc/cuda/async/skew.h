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
// The parts of a loop that was split at its masks are one loop here. Only loops of step 1 change, and those
// whose tiles fit so many registers of a thread besides 24 others, if a group has `rows` rows. The kernel
// computes the same bits.
void skew_loops(Function& function);

}  // namespace tile::cuda
