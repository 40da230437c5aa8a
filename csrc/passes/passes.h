// All passes. Each changes a kernel and returns whether it did.
#pragma once
#include "ir/op.h"
#include "passes/pipeline.h"

namespace tile {

bool expand(Function& function);                  // derived primitives become core ones
bool expand_for_derivatives(Function& function);  // the same, but for those that derivatives ask for
bool canonicalise(Function& function);            // one order of ops, whatever the order of tracing
bool fold(Function& function);                    // arithmetic of constants
bool simplify(Function& function);                // exact identities
bool simplify_control(Function& function);        // known branches, loops with at most one iteration
bool single_products(Function& function);   // products of batches of one matrix become products of matrices
bool named_reductions(Function& function);  // regions of one op become reduce_sum, reduce_max and others
bool drop_unit_axes(Function& function);    // accesses of tiles without axes that a reshape drops or adds
bool cse(Function& function);               // equal pure ops and loads become one
bool licm(Function& function);              // invariant ops leave their loop
bool dce(Function& function);               // removes unused results, carried values and ops
bool find_runs(Function& function);         // gathers and scatters of neighbours say so, for a GPU
bool simplify_masks(Function& function);    // comparisons decided by ranges; accesses proven in bounds
// Moves masked iterations to separate loops.
bool split_loops(Function& function, const PipelineOptions& options);

}  // namespace tile
