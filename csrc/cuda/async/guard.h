// Takes a kernel's ops out of the branch that holds all of them, so that products are not inside of it.
#pragma once
#include "ir/op.h"

namespace tile::cuda {

// Rewrites a kernel that ends with `if condition {…}`, and does nothing otherwise: leave_unless condition,
// and then the ops of the region. Blocks without work so leave before they have roles. Returns true if there
// was such a branch.
bool leave_instead_of_branch(Function& function);

}  // namespace tile::cuda
