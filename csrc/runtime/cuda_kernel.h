// A kernel compiled for NVIDIA GPUs: source and cubin for each kind of chip, and a function for each device.
// There is a further one of each for grids whose longest axis is not the first.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/program.h"
#include "driver/current_stream.h"
#include "driver/driver.h"
#include "runtime/block_counters.h"
#include "runtime/cubin_compiler.h"
#include "runtime/cuda_parameters.h"
#include "runtime/executable.h"
#include "runtime/tensor_maps.h"
#include "support/once.h"

namespace tile {

class CudaKernel final : public Executable {
 public:
  // Does not compile yet.
  CudaKernel(Function function, KernelName name, const Driver& driver, CubinCompiler& compiler);
  ~CudaKernel() override;

  // Enqueues the kernel in the device's current stream. The first run compiles and loads it in one thread,
  // which also works while the stream is captured.
  void run(const Blocks& blocks, ArgumentRefs arguments) const override;

  struct Code {
    cuda::Target target;
    cuda::Program program;
    CompileResult result;
    CudaParameters parameters;
  };
  struct Loaded {
    const Code* code = nullptr;
    CudaFunction function;
    FunctionAttributes attributes;                      // local_bytes > 0 if it spills
    FailureLocation failures;                           // set for a kernel with assertions
    std::unique_ptr<TensorMaps> tensor_maps = nullptr;  // null: the kernel takes none
    std::unique_ptr<BlockCounters> counters = nullptr;  // null: the kernel draws no blocks
    int clusters = 0;                                   // that the device holds at once, if it has some
  };
  const Loaded& on(int device, int long_axis = 0) const;

 private:
  struct Slot {
    Once once;
    Loaded loaded;
    std::atomic<bool> ready = false;
  };
  const Code& code_for(int device, int long_axis, int cluster_blocks) const;
  void load(Slot& slot, int device, int long_axis) const;
  // False if the device has no room for its clusters.
  bool load(Loaded& loaded, const Code& code, int device) const;
  // Loads the code and returns its kernel, ready to be launched. The caller holds a Driver::Loading.
  std::pair<CudaModule, CudaFunction> load(const Code& code, int device) const;
  std::string label() const;  // the name in the driver's errors

  const Function function_;
  const KernelName name_;
  const Driver& driver_;
  CubinCompiler& compiler_;
  const std::unique_ptr<std::array<Slot, 3>[]> slots_;  // for each device and each long axis
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Code>> codes_;  // one for each target
};

}  // namespace tile
