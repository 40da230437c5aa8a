// Records the kernels that a program asks for in a file, so that they can be compiled later for any chip.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/program.h"
#include "runtime/cubin_compiler.h"
#include "runtime/executable.h"

namespace tile {

struct RecordedKernel {
  std::string bytes;  // as in the file
  std::string name;   // in errors
  int arch = 0;       // the chip that it was asked for
  std::string ir;     // after all passes; empty for CUDA C++
  int shared_bytes = 0, cluster_blocks = 0, long_axis = 0;
  CompileRequest request;  // set for CUDA C++
};

// From now on appends each kernel that this process asks for to the file, until the path is empty. The
// variable TILE_RECORD is the path at first. Several processes may append to one file.
void record_kernels_in(const std::string& path);
// Both append the kernel if a file is set.
void record_kernel(const Function& function, const KernelName& name, const cuda::Target& target);
void record_kernel(const CompileRequest& request);

// Returns the kernels of a file, each once. Throws if it cannot be read or is damaged.
std::vector<RecordedKernel> recorded_kernels(const std::string& path);

// Convert a kernel to RecordedKernel::bytes, and back. The latter returns none if the bytes are malformed.
std::string record_of(const Function& function, const KernelName& name, const cuda::Target& target);
std::optional<RecordedKernel> recorded_kernel(std::string_view bytes);

// Compiles a kernel for an arch, as a chip of that arch would ask for it.
void compile_recorded(const RecordedKernel& kernel, int arch, CubinCompiler& compiler);

}  // namespace tile
