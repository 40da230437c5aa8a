// Transposed products: a product whose transpose is needed is computed as (a b)^T = b^T a^T.
#pragma once
#include "ir/op.h"

namespace tile {

// Moves permutes of matrices from products, and from elementwise arithmetic behind them, to the operands: a
// left operand of another product then stays in the registers that computed it. Does nothing if some product
// would be computed in both ways. Returns true if it changed the function.
bool transpose_products(Function& function);

// Returns true if a permute exchanges the axes of a matrix.
bool exchanges_axes(const Op& op);
// Returns true if a value is a load, with its axes moved at most.
bool is_loaded_tile(const Value* value);

}  // namespace tile
