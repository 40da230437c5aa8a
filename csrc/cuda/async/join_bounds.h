// Joins two upper bounds of a mask to one.
#pragma once
#include "ir/op.h"

namespace tile::cuda {

// In loops: x < a & x <= b, for integers, becomes x <= min(a - 1, b) if a and b do not change in the loop,
// and the smaller bound has fewer elements than the mask. It is computed once, in front of the loop, which
// then compares each element once. a - 1 is taken of an extent only, so that it does not wrap.
void join_bounds(Function& function);

}  // namespace tile::cuda
