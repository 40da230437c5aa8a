// Every pass: a function that changes a kernel and says whether it did.
#pragma once
#include "ir/op.h"
#include "passes/pipeline.h"

namespace tile {

bool expand(Function& function);        // derived primitives become core ones
bool canonicalise(Function& function);  // one order of ops, whatever the order of tracing
bool fold(Function& function);          // arithmetic of constants
bool simplify(Function& function);      // identities that are exact
bool simplify_control(
    Function& function);  // known branches, loops of no or one iteration, values carried unchanged
bool single_products(Function& function);  // products of batches of one matrix are products of matrices
bool drop_unit_axes(Function& function);   // accesses of tiles without axes that a reshape drops or adds
bool cse(Function& function);              // equal pure ops and loads become one
bool licm(Function& function);             // invariant ops leave their loop
bool dce(Function& function);              // results, carried values and ops that nobody uses
bool simplify_masks(Function& function);   // comparisons decided by ranges; accesses proven in bounds
bool split_loops(Function& function,
                 const PipelineOptions& options);  // masked iterations get loops of their own

}  // namespace tile
