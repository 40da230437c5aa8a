// The code of a kernel for a chip: of its configurations the first whose registers suffice, else the least
// bad.
#pragma once
#include <string>
#include <vector>

#include "cuda/program.h"
#include "runtime/cubin_compiler.h"
#include "runtime/executable.h"

namespace tile {

struct GpuCode {
  cuda::Program program;
  CompileResult result;
};

// The usual configuration is compiled alone; only where it fails the others are, at once. All are kept on
// disk, so that a later process chooses again without NVRTC. A warning says where none is good, the log what
// each took and why it is not the one, a line on the terminal what takes long.
GpuCode compile_for_gpu(const Function& function, const KernelName& name, const cuda::Target& target,
                        CubinCompiler& compiler);

// Error where the usual one cannot be made; others that cannot, or whose text is one before, are left out.
struct ConfiguredProgram {
  const cuda::Configuration* configuration;
  cuda::Program program;
};
std::vector<ConfiguredProgram> programs_of(const Function& function, const cuda::Target& target);

// Returns true if ptxas says of code that no other configuration need be tried.
bool is_acceptable(const std::string& log, const std::string& entry, bool multiplies);

CompileRequest request_of(const std::string& text, const std::string& kernel, int arch);

}  // namespace tile
