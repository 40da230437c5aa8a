// The rules of reverse mode that primitives have in their records. Each adds to the adjoints of the operands.
#pragma once
#include <functional>
#include <vector>

#include "ir/adjoints.h"

namespace tile {

void adjoint_of_elementwise(Adjoints& adjoints);  // by the rows of prims/derivatives.def
void adjoint_of_where(Adjoints& adjoints);
void adjoint_of_cast(Adjoints& adjoints);
void adjoint_of_bits(Adjoints& adjoints);  // an error

void no_adjoint(Adjoints& adjoints);  // derivatives take the result for a constant

void adjoint_of_reshape(Adjoints& adjoints);
void adjoint_of_permute(Adjoints& adjoints);
void adjoint_of_cat(Adjoints& adjoints);
void adjoint_of_extract(Adjoints& adjoints);
void adjoint_of_insert(Adjoints& adjoints);

void adjoint_of_sum(Adjoints& adjoints);
void adjoint_of_prod(Adjoints& adjoints);
void adjoint_of_extreme(Adjoints& adjoints);  // max and min; equal elements share the adjoint, as in torch
void adjoint_of_reduce(Adjoints& adjoints);   // by a region that is one of the above
void adjoint_of_scan(Adjoints& adjoints);
void adjoint_of_combine(Adjoints& adjoints);  // of a reduction or a scan by any region

// Emits a scan of tiles. step: emits what the region yields, of the accumulated and the new scalars.
using ScanStep = std::function<std::vector<Value*>(Builder& build, const std::vector<Value*>& old,
                                                   const std::vector<Value*>& next)>;
std::vector<Value*> emit_scan(Builder& build, const std::vector<Value*>& tiles, int64_t axis, bool reverse,
                              const ScanStep& step);

void adjoint_of_mma(Adjoints& adjoints);

void adjoint_of_load(Adjoints& adjoints);
void adjoint_of_store(Adjoints& adjoints);  // also of an addition to memory
void adjoint_of_gather(Adjoints& adjoints);
void adjoint_of_scatter(Adjoints& adjoints);
void adjoint_of_gather_rows(Adjoints& adjoints);
void adjoint_of_scatter_rows(Adjoints& adjoints);
void adjoint_of_atomic_add(Adjoints& adjoints);  // if its result is unused

}  // namespace tile
