// Forward mode: a kernel that computes the tangents of what it writes, beside the values.
#pragma once
#include <vector>

#include "ir/op.h"

namespace tile {

// Returns the kernel, as NAME_forward_mode, with a tangent beside each value that depends on an active
// parameter; `active` has an entry for each parameter. Behind the kernel's parameters it takes, for each
// active one, an array of its dtype and rank, or a scalar: the tangent. Arrays of tangents are read and
// written like the arrays that they belong to. What a tile adds to or stores into an array that is not active
// has no tangent.
//
// Throws an error that names the op and its line if an active value has no derivative, or if an active value
// is stored into an array that is not active and that the kernel reads.
Function forward(const Function& kernel, const std::vector<bool>& active);

}  // namespace tile
