// Records what the launches of a call compile to: the Tile IR, CUDA C++, PTX, or code and the resources that
// it takes.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cuda/program.h"
#include "driver/compile_log.h"
#include "runtime/cubin_compiler.h"
#include "runtime/launch_observer.h"

namespace tile {

// Returns the limits of a block on an arch, for compilation without a device. Error: an arch older than
// kernels run on.
cuda::Target target_of_arch(int arch);

struct InspectedKernel {
  std::string name;
  Grid grid;
  std::string text;                  // Tile IR, CUDA C++ or PTX; a cubin is no text
  std::string configuration, entry;  // the entry: its symbol
  bool multiplies = false;           // on tensor cores
  std::string cubin;
  // For GPU kernels:
  int arch = 0, threads = 0, cluster = 1, shared_bytes = 0;
  std::vector<cuda::Conversion> conversions;
  KernelResources resources;  // where it was compiled to code
  std::string warning;        // of speed, that NVRTC warns of
  bool acceptable = true;     // no other configuration need be tried
};

// Kernels for a GPU are compiled and not run; those on the CPU run, and are listed where Tile IR is wanted.
class Inspection final : public LaunchObserver {
 public:
  // usual: the text of the usual configuration; configurations: a row for each whose text differs. Neither
  // compiles. cuda: what runs; where it cannot be compiled, as without NVRTC, the usual configuration, and
  // the text begins with why.
  enum class What { ir, usual, configurations, cuda, ptx, code };
  Inspection(What what, cuda::Target target, CubinCompiler& compiler)
      : what_(what), target_(target), compiler_(compiler) {}
  const cuda::Target* target() const override { return &target_; }
  bool saw(const KernelName& kernel, const Grid& grid, ArgumentRefs arguments,
           const std::function<Function()>& compiled) override;
  const std::vector<InspectedKernel>& kernels() const { return kernels_; }

 private:
  What what_;
  cuda::Target target_;
  CubinCompiler& compiler_;
  std::vector<InspectedKernel> kernels_;
};

// Compiles a row of `usual` or `configurations`.
void compile_text(InspectedKernel& kernel, CubinCompiler& compiler);

// The same for a text that is CUDA C++ already. Fills what was asked for; `entry` is the symbol.
void compile_for_inspection(InspectedKernel& kernel, Inspection::What what, CompileRequest request,
                            const std::string& entry, CubinCompiler& compiler);

}  // namespace tile
