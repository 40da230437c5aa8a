// Compiles the launches of a call for inspection.
#include "runtime/inspection.h"

#include <algorithm>

#include "ir/print.h"
#include "runtime/gpu_code.h"
#include "runtime/kernel_record.h"
#include "support/progress.h"

namespace tile {
namespace {

bool on_gpu(ArgumentRefs arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const ArgumentRef& argument) {
    return argument.array && argument.array->device == DeviceKind::cuda;
  });
}

}  // namespace

cuda::Target target_of_arch(int arch) {
  if (arch < cuda::oldest_arch)
    fail(ErrorKind::unsupported, "inspect: the chip is sm_", arch, ", and kernels need sm_",
         cuda::oldest_arch, " or newer; give another");
  // The opt-in limit of a block, from the CUDA documentation's table of compute capabilities.
  constexpr int kib = 1024;
  const int shared = arch / 10 == 9 || arch / 10 == 10 ? 227 * kib
                     : arch == 80 || arch == 87        ? 163 * kib
                                                       : 99 * kib;
  return {.arch = arch, .shared_bytes = shared, .max_threads = 1024};
}

void compile_for_inspection(InspectedKernel& kernel, Inspection::What what, CompileRequest request,
                            const std::string& entry, CubinCompiler& compiler) {
  Progress progress("compiling " + request.file);
  if (what == Inspection::What::ptx) {
    progress.begin();
    request.ptx = true;
    kernel.text = compiler.nvrtc().compile(request).ptx;
  } else {
    request.options.emplace_back("--ptxas-options=-v");
    CompileResult result = compiler.compile(request, &progress);
    kernel.cubin = std::move(result.cubin);
    kernel.resources = resources_in(result.log, entry);
  }
}

void compile_text(InspectedKernel& kernel, CubinCompiler& compiler) {
  const CompileResult result = compiler.compile(request_of(kernel.text, kernel.name, kernel.arch));
  kernel.cubin = result.cubin;
  kernel.resources = resources_in(result.log, kernel.entry);
  kernel.warning = performance_loss(result.log);
  kernel.acceptable = is_acceptable(result.log, kernel.entry, kernel.path);
}

bool Inspection::observe(const KernelName& name, const Grid& grid, ArgumentRefs arguments,
                         const std::function<Function()>& compiled) {
  const bool gpu = on_gpu(arguments), launches = grid.x && grid.y && grid.z;
  if (!launches || (!gpu && what_ != What::ir)) return gpu;
  const Function function = compiled();
  const auto row_of = [&](const cuda::Program& program, const std::string& configuration) {
    return InspectedKernel{.name = name.name,
                           .grid = grid,
                           .text = program.source,
                           .configuration = configuration,
                           .entry = program.entry,
                           .path = program.path,
                           .why = program.why,
                           .arch = target_.arch,
                           .threads = program.threads,
                           .cluster = program.cluster,
                           .shared_bytes = program.shared_bytes,
                           .conversions = program.conversions};
  };
  if (what_ == What::ir) {
    kernels_.push_back({.name = name.name, .grid = grid, .text = print(function)});
  } else if (what_ == What::configurations) {
    for (const auto& [configuration, program] : programs_of(function, target_))
      kernels_.push_back(row_of(program, cuda::text_of(configuration)));
  } else if (what_ == What::record) {
    kernels_.push_back(
        {.name = name.name, .grid = grid, .cubin = record_of(function, name, target_), .arch = target_.arch});
  } else if (what_ == What::usual) {
    kernels_.push_back(row_of(cuda::Program(function, target_), cuda::text_of({})));
  } else {
    try {
      GpuCode code = compile_for_gpu(function, name, target_, compiler_);
      InspectedKernel& kernel = kernels_.emplace_back(row_of(code.program, ""));
      kernel.cubin = std::move(code.result.cubin);
      kernel.resources = resources_in(code.result.log, code.program.entry);
      kernel.warning = performance_loss(code.result.log);
      if (what_ == What::ptx)
        compile_for_inspection(kernel, what_, request_of(code.program.source, name.name, target_.arch),
                               code.program.entry, compiler_);
    } catch (const Error& error) {
      if (what_ != What::cuda) throw;
      InspectedKernel& kernel = kernels_.emplace_back(row_of(cuda::Program(function, target_), ""));
      const std::string why = error.what();
      kernel.text =
          str("// The usual configuration, not compiled: ", why.substr(0, why.find('\n')), '\n', kernel.text);
    }
  }
  return gpu;
}

}  // namespace tile
