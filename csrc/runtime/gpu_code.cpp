// Judges code by what ptxas says of it.
#include "runtime/gpu_code.h"

#include <algorithm>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/compile_log.h"
#include "support/log.h"

namespace tile {
namespace {

// Of a thread, written and read: a few registers put by before a loop cost less than cutting it otherwise.
// With fewer sums a thread, products would read more shared memory.
constexpr int spilled_bytes_allowed = 128, spilled_bytes_allowed_to_products = 1024;

struct Fault {
  std::string loss;       // of speed, that the log warns of
  int spilled_bytes = 0;  // of a thread, written and read
  int64_t of_block = 0;
  int allowed = spilled_bytes_allowed;

  bool any() const { return !loss.empty() || spilled_bytes > allowed; }
  bool operator<(const Fault& other) const {
    return std::pair(!loss.empty(), of_block) < std::pair(!other.loss.empty(), other.of_block);
  }
};

Fault fault_of(const GpuCode& code) {
  const KernelResources resources = resources_in(code.result.log, code.program.entry);
  const int spilled = resources.spill_stores + resources.spill_loads;
  return {performance_loss(code.result.log), spilled, int64_t{spilled} * code.program.threads,
          code.program.multiplies ? spilled_bytes_allowed_to_products : spilled_bytes_allowed};
}

// Those that differ from the usual one and from each other.
std::vector<cuda::Program> other_programs(const Function& function, const cuda::Target& target,
                                          const cuda::Program& usual) {
  std::vector<cuda::Program> others;
  for (size_t i = 1; i < std::size(cuda::configurations); ++i) try {
      cuda::Program program(function, target, cuda::configurations[i]);
      const auto same = [&](const cuda::Program& other) { return other.text == program.text; };
      if (!same(usual) && std::none_of(others.begin(), others.end(), same))
        others.push_back(std::move(program));
    } catch (const Error&) {  // it may need more shared memory than there is
    }
  return others;
}

void warn(const KernelName& name, const cuda::Target& target, const Fault& fault) {
  warn_once(name.where.known() ? str(name.where, ": ", name.name) : name.name,
            fault.loss.empty()
                ? str("its code for sm_", target.chip, " spills ", fault.spilled_bytes,
                      " bytes of registers a thread, however it is cut; use smaller tiles")
                : str("its code for sm_", target.chip, " is slower than it could be: ", fault.loss));
}

}  // namespace

CompileRequest request_of(const cuda::Program& program, const KernelName& name, const cuda::Target& target) {
  return {.text = program.text,
          .file = name.name + ".cu",
          .chip = target.chip,
          .headers = cuda::device_library(),
          .options = {"--std=c++17", "--ptxas-options=-v"},
          .minimal = true};
}

GpuCode compile_for_gpu(const Function& function, const KernelName& name, const cuda::Target& target,
                        CubinCompiler& compiler) {
  const auto compiled = [&](cuda::Program program) {
    if (dumps("cuda")) dump(str("// ", name.name, " for sm_", target.chip, '\n', program.text, '\n'));
    CompileResult result = compiler.compile(request_of(program, name, target));
    return GpuCode{std::move(program), std::move(result)};
  };
  GpuCode best = compiled(cuda::Program(function, target));
  Fault least = fault_of(best);
  if (!least.any()) return best;
  std::vector<std::future<GpuCode>> others;
  for (cuda::Program& program : other_programs(function, target, best.program))
    others.push_back(std::async(std::launch::async, compiled, std::move(program)));
  for (std::future<GpuCode>& other : others) {
    GpuCode code = other.get();
    const Fault fault = fault_of(code);
    if (least.any() && fault < least) best = std::move(code), least = fault;
  }
  if (least.any()) warn(name, target, least);
  return best;
}

}  // namespace tile
