// torch's context.
#include "torch/context.h"

#include <ATen/Context.h>

namespace tile {

bool wants_fixed_order() { return at::globalContext().deterministicAlgorithms(); }

}  // namespace tile
