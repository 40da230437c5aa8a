// Divides what follows a product's loop into panels of columns, so that registers hold the loads and the
// values of a panel only.
#pragma once
#include "ir/op.h"

namespace tile::cuda {

// Columns of a panel: 128 bytes of 16-bit elements.
constexpr int64_t panel_columns = 64;

// Rewrites the elementwise ops, loads and stores that use the sum of a product: it extracts panels of the sum
// and repeats the ops for each, up to its stores. Where other ops use the sum, it changes nothing. The kernel
// computes the same bits. Extracts, loads and stores have the number of their panel as {panel}.
void divide_epilogues(Function& function);

// Returns true if the loop's result is a sum of products: its last product is carried to the next iteration.
bool is_sum_of_products(const Op& loop, size_t result);

}  // namespace tile::cuda
