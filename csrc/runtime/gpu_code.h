// The code of a kernel for a chip: of its configurations the first whose registers suffice, else the least
// bad.
#pragma once
#include "cuda/program.h"
#include "runtime/cubin_compiler.h"
#include "runtime/executable.h"

namespace tile {

struct GpuCode {
  cuda::Program program;
  CompileResult result;
};

// The usual configuration is compiled alone; only where it fails the others are, at once. All are kept on
// disk, so that a later process chooses again without NVRTC. A warning says where none is good.
GpuCode compile_for_gpu(const Function& function, const KernelName& name, const cuda::Target& target,
                        CubinCompiler& compiler);

CompileRequest request_of(const cuda::Program& program, const KernelName& name, const cuda::Target& target);

}  // namespace tile
