// The code of a kernel for a chip: from the usual configuration if its registers suffice, otherwise from the
// best one.
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

// Compiles the usual configuration alone; if it is not acceptable, it compiles the others, two at a time, in
// the order of the time that they are expected to take, until one that is acceptable is as fast as the others
// are expected to be. All are kept on disk, so that a later process chooses again without NVRTC. A warning
// reports if none is acceptable; the log lists the cost of each configuration and why it was not chosen; the
// terminal shows a progress line if it takes long.
GpuCode compile_for_gpu(const Function& function, const KernelName& name, const cuda::Target& target,
                        CubinCompiler& compiler);

// Throws if the usual configuration cannot be made. Others are left out if they cannot be made or have the
// same source as an earlier one.
struct ConfiguredProgram {
  cuda::Configuration configuration;
  cuda::Program program;
};
std::vector<ConfiguredProgram> programs_of(const Function& function, const cuda::Target& target);

// Returns true if, by the report of ptxas, no other configuration need be tried.
// `path`: that of the program.
bool is_acceptable(const std::string& log, const std::string& entry, const std::string& path);

CompileRequest request_of(const std::string& source, const std::string& kernel, int arch);

}  // namespace tile
