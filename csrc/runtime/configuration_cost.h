// Estimates how fast a kernel's configurations run: from the report of ptxas, and before they are compiled
// from the report of another one.
#pragma once
#include "cuda/program.h"
#include "driver/compile_log.h"

namespace tile {

// Returns how many warps of a kernel run at once on a multiprocessor of the chip; 0 if ptxas reports no
// registers.
int resident_warps(const cuda::Program& program, const KernelResources& resources,
                   const cuda::Target& target);

// Returns a time relative to that of other configurations of one kernel. It knows what hides the latency of
// memory and of barriers: warps, blocks that do not wait for each other, and loads ahead. Kernels with
// products, whose larger tiles are better than more warps, and kernels without a report cost 1.
double estimated_cost(const cuda::Program& program, const cuda::Configuration& configuration,
                      const KernelResources& resources, const cuda::Target& target);

// Returns what ptxas will report, if threads of `program` share the registers that those of another
// configuration needed. Its spills are what the registers of a thread cannot hold.
KernelResources expected_resources(const cuda::Program& program, const cuda::Configuration& configuration,
                                   const cuda::Program& other, const KernelResources& of_other);

}  // namespace tile
