// Transposed kernels: what blocks along a grid axis would add to the same elements, a block of another kernel
// adds up alone. There the iterations of a loop are the blocks, and the blocks of the axis are a loop.
#pragma once
#include "derive/reverse.h"

namespace tile {

// Takes the gradients of `derived` that are `owned` out of its kernel, into transposed kernels. What these
// need of a block and cannot load or compute again easily, the kernel stores. Returns for each gradient why
// it could not be taken out; empty: it was, or it is not owned. If there is any such text, `derived` is of no
// use.
std::vector<std::string> transpose_owned(Derived& derived, const std::vector<Wanted>& wanted);

}  // namespace tile
