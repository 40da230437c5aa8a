// Compiles what a call launches for looking at it.
#include "runtime/inspection.h"

#include <algorithm>

#include "ir/print.h"
#include "runtime/gpu_code.h"

namespace tile {
namespace {

bool on_gpu(ArgumentRefs arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const ArgumentRef& argument) {
    return argument.array && argument.array->device == DeviceKind::cuda;
  });
}

}  // namespace

cuda::Target target_of_chip(int chip) {
  if (chip < cuda::oldest_chip)
    fail(ErrorKind::unsupported, "inspect: the chip is sm_", chip, ", and kernels need sm_",
         cuda::oldest_chip, " or newer; give another");
  // Of the compute capabilities' table: what a block can opt in to.
  constexpr int kib = 1024;
  const int shared = chip / 10 == 9 || chip / 10 == 10 ? 227 * kib
                     : chip == 80 || chip == 87        ? 163 * kib
                                                       : 99 * kib;
  return {.chip = chip, .shared_bytes = shared, .max_threads = 1024};
}

void compile_for_inspection(InspectedKernel& kernel, Inspection::What what, CompileRequest request,
                            const std::string& entry, CubinCompiler& compiler) {
  if (what == Inspection::What::ptx) {
    request.ptx = true;
    kernel.text = compiler.nvrtc().compile(request).ptx;
  } else {
    request.options.emplace_back("--ptxas-options=-v");
    CompileResult result = compiler.compile(request);
    kernel.cubin = std::move(result.cubin);
    kernel.resources = resources_in(result.log, entry);
  }
}

bool Inspection::saw(const KernelName& name, const Grid& grid, ArgumentRefs arguments,
                     const std::function<Function()>& compiled) {
  const bool gpu = on_gpu(arguments), launches = grid.x && grid.y && grid.z;
  if (!launches || (!gpu && what_ != What::ir)) return gpu;
  const Function function = compiled();
  InspectedKernel& kernel = kernels_.emplace_back(InspectedKernel{.name = name.name, .grid = grid});
  if (what_ == What::ir) {
    kernel.text = print(function);
    return gpu;
  }
  kernel.chip = target_.chip;
  if (what_ == What::configurations) {
    for (const cuda::Configuration& configuration : cuda::configurations) {
      const CompileRequest request =
          request_of(cuda::Program(function, target_, configuration), name, target_);
      kernel.text += request.text + join(request.options) + '\n';
    }
    return true;
  }
  GpuCode code = compile_for_gpu(function, name, target_, compiler_);
  kernel.threads = code.program.threads;
  kernel.cluster = code.program.cluster;
  kernel.shared_bytes = code.program.shared_bytes;
  kernel.conversions = code.program.conversions;
  kernel.text = code.program.text;
  kernel.cubin = std::move(code.result.cubin);
  kernel.resources = resources_in(code.result.log, code.program.entry);
  kernel.loss = performance_loss(code.result.log);
  if (what_ == What::ptx)
    compile_for_inspection(kernel, what_, request_of(code.program, name, target_), code.program.entry,
                           compiler_);
  return true;
}

}  // namespace tile
