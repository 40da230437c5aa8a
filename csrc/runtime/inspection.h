// Records what the launches of a call compile to: Tile IR, CUDA C++, PTX, or machine code and the resources
// that it uses.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cuda/program.h"
#include "driver/compile_log.h"
#include "runtime/cubin_compiler.h"
#include "runtime/launch_observer.h"

namespace tile {

// Returns the limits of a block on an arch, for compilation without a device. Throws for an arch that is too
// old for kernels.
cuda::Target target_of_arch(int arch);

struct InspectedKernel {
  std::string name;
  Grid grid;
  std::string text;                  // Tile IR, CUDA C++ or PTX; not used for a cubin
  std::string configuration, entry;  // `entry` is the symbol
  std::string path, why;             // as in cuda::Program
  std::string cubin;
  // For GPU kernels:
  int arch = 0, threads = 0, cluster = 1, shared_bytes = 0;
  std::vector<cuda::Conversion> conversions;
  KernelResources resources;  // set if it was compiled to code
  std::string warning;        // NVRTC's performance warning
  bool acceptable = true;     // false if other configurations should be tried
};

// Kernels for a GPU are compiled and not run. Kernels on the CPU run, and are listed if Tile IR is requested.
class Inspection final : public LaunchObserver {
 public:
  // usual: the source of the usual configuration. configurations: a row for each configuration whose source
  // differs. record: the bytes of a RecordedKernel, as `cubin`. None of these compiles. cuda: the source of
  // the chosen configuration; if it cannot be compiled, for example without NVRTC, the usual configuration,
  // and the text begins with the reason.
  enum class What { ir, usual, configurations, record, cuda, ptx, code };
  Inspection(What what, cuda::Target target, CubinCompiler& compiler)
      : what_(what), target_(target), compiler_(compiler) {}
  const cuda::Target* target() const override { return &target_; }
  bool observe(const KernelName& kernel, const Grid& grid, ArgumentRefs arguments,
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

// Does the same for a CUDA C++ source. Fills in the requested parts; `entry` is the symbol.
void compile_for_inspection(InspectedKernel& kernel, Inspection::What what, CompileRequest request,
                            const std::string& entry, CubinCompiler& compiler);

}  // namespace tile
