// Judges code by the report of ptxas.
#include "runtime/gpu_code.h"

#include <algorithm>
#include <functional>
#include <future>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/cluster.h"
#include "driver/compile_log.h"
#include "runtime/configuration_cost.h"
#include "runtime/cuda_parameters.h"
#include "runtime/kernel_record.h"
#include "support/log.h"
#include "support/progress.h"

namespace tile {
namespace {

// Limits of spilled bytes of a thread, written and read, in the whole kernel: ptxas does not report where it
// spills, and SASS differs between chips. In the loops of the kernels that pass, spills are 1 to 4 of 100
// instructions (docs/how_the_compiler_works.md). With fewer accumulators per thread, products would read more
// shared memory.
constexpr int spilled_bytes_allowed = 128, spilled_bytes_allowed_to_products = 1024;
// Spills next to warpgroup products can serialise them, so other configurations are tried first. With at most
// so many bytes, spread over all loops, these products are still faster than others.
constexpr int spilled_bytes_allowed_to_wgmma = 0, small_spills_of_wgmma = 256;

struct Fault {
  std::string loss;       // a performance warning in the log
  int spilled_bytes = 0;  // per thread, written and read
  int64_t of_block = 0;
  int allowed = spilled_bytes_allowed;

  bool any() const { return !loss.empty() || spilled_bytes > allowed; }
  bool is_small() const {
    const int small =
        allowed == spilled_bytes_allowed_to_wgmma ? small_spills_of_wgmma : spilled_bytes_allowed;
    return loss.empty() && spilled_bytes <= small;
  }
  // Spills that are allowed are no worse than none.
  bool operator<(const Fault& other) const {
    return std::tuple(any(), !loss.empty(), any() ? of_block : 0) <
           std::tuple(other.any(), !other.loss.empty(), other.any() ? other.of_block : 0);
  }
};

Fault fault_of(const std::string& log, const std::string& entry, int allowed, int threads) {
  const KernelResources resources = resources_in(log, entry);
  const int spilled = resources.spill_stores + resources.spill_loads;
  return {performance_loss(log), spilled, int64_t{spilled} * threads, allowed};
}
// `path`: that of the program.
int allowed_to(const std::string& path) {
  return path == "wgmma"      ? spilled_bytes_allowed_to_wgmma
         : path == "mma.sync" ? spilled_bytes_allowed_to_products
                              : spilled_bytes_allowed;
}

// One configuration, compiled or failed.
struct Candidate {
  cuda::Configuration configuration;
  std::string failure;          // the reason why there is no code
  std::optional<GpuCode> code;  // set if `failure` is empty
  Fault fault;
  double cost = 0;   // estimated
  size_t order = 0;  // of the configuration
};

// Compares two configurations: one without a fault is better than one with a fault; without faults the lower
// estimated time is better, with faults the smaller fault. Equally good ones are not better than each other.
bool is_better(const Candidate& candidate, const Candidate& other) {
  if (!candidate.failure.empty() || !other.failure.empty()) return candidate.failure.empty();
  if (candidate.fault < other.fault) return true;
  return !candidate.fault.any() && !other.fault.any() && candidate.cost < other.cost;
}

// A configuration that is not compiled yet.
struct Waiting {
  ConfiguredProgram program;
  size_t order;
  double expected_cost;
};
// The configurations after the usual one, those first that are expected to be fast.
std::vector<Waiting> by_expected_cost(std::vector<ConfiguredProgram> programs, const Candidate& usual,
                                      const cuda::Target& target) {
  const GpuCode& code = *usual.code;
  const KernelResources known = resources_in(code.result.log, code.program.entry);
  std::vector<Waiting> all;
  for (ConfiguredProgram& made : programs) {
    const KernelResources expected =
        expected_resources(made.program, made.configuration, code.program, known);
    const double cost = estimated_cost(made.program, made.configuration, expected, target);
    all.push_back({std::move(made), all.size() + 1, cost});
  }
  std::stable_sort(all.begin(), all.end(), [](const Waiting& first, const Waiting& second) {
    return first.expected_cost < second.expected_cost;
  });
  return all;
}

// Returns text such as "NVRTC 312.0 ms, 512 threads of 64 registers, 0 bytes spilled".
std::string facts_of(const GpuCode& code) {
  const KernelResources resources = resources_in(code.result.log, code.program.entry);
  return str(origin(code.result), ' ', Stopwatch::text(code.result.seconds), ", ", code.program.threads,
             " threads of ", resources.registers, " registers, ",
             resources.spill_stores + resources.spill_loads, " bytes spilled");
}
std::string why_not(const Candidate& candidate, const Candidate& chosen) {
  if (!candidate.failure.empty()) return candidate.failure;
  const Fault& fault = candidate.fault;
  if (!fault.loss.empty()) return "slower than it could be: " + fault.loss;
  if (!fault.any())
    return candidate.cost > chosen.cost ? "fewer of its warps run at once, or wait longer"
                                        : "one before it is as good";
  const std::string spills = str("spills more than ", fault.allowed, " bytes a thread");
  return chosen.fault.any() ? spills + ", and no less than the chosen one" : spills;
}
void log(const KernelName& name, const cuda::Target& target, const std::vector<Candidate>& tried,
         const Candidate& chosen) {
  if (!logs()) return;
  for (const Candidate& candidate : tried)
    log_line(name.name, " for sm_", target.arch, ", ", text_of(candidate.configuration), ": ",
             candidate.failure.empty() ? facts_of(*candidate.code) + ", " : "",
             &candidate != &chosen   ? "not chosen: " + why_not(candidate, chosen)
             : candidate.fault.any() ? "chosen: the least bad"
                                     : "chosen");
}

void warn(const KernelName& name, const cuda::Target& target, const Fault& fault) {
  warn_once(name.where.known() ? str(name.where, ": ", name.name) : name.name,
            fault.loss.empty()
                ? str("its code for sm_", target.arch, " spills ", fault.spilled_bytes,
                      " bytes of registers a thread, in every configuration; use smaller tiles")
                : str("its code for sm_", target.arch, " is slower than it could be: ", fault.loss));
}

void check_parameters(const Function& function, const KernelName& name, const cuda::Program& program) {
  const size_t bytes = CudaParameters(function, program).bytes();
  if (bytes > CudaParameters::most_bytes)
    fail(name.where, ErrorKind::value, "launch of ", name.name, ": its arguments take ", bytes,
         " bytes, and a GPU kernel takes at most ", CudaParameters::most_bytes, "; pass fewer arrays");
}

}  // namespace

std::vector<ConfiguredProgram> programs_of(const Function& function, const cuda::Target& target) {
  std::vector<ConfiguredProgram> made;
  const auto add = [&](const cuda::Configuration& configuration) {
    try {
      cuda::Program program(function, target, configuration);
      const auto same = [&](const ConfiguredProgram& other) {
        return other.program.source == program.source;
      };
      if (std::none_of(made.begin(), made.end(), same)) made.push_back({configuration, std::move(program)});
    } catch (const Error&) {  // it may need more shared memory than the chip has
      if (made.empty()) throw;
    }
  };
  for (const cuda::Configuration& configuration : cuda::group_configurations) add(configuration);
  const bool has_wgmma = made[0].program.path == "wgmma";
  // Small tiles do not have a vector of 16 bytes for each of many threads.
  const int64_t vectors = cuda::live_tiles(function).largest / 16;
  for (cuda::Configuration configuration : cuda::configurations) {
    if (configuration.warps > 1 && vectors < int64_t{made[0].program.threads} << configuration.warps)
      continue;
    configuration.wgmma = !has_wgmma;
    add(configuration);
  }
  return made;
}

bool is_acceptable(const std::string& log, const std::string& entry, const std::string& path) {
  return !fault_of(log, entry, allowed_to(path), 1).any();
}

CompileRequest request_of(const std::string& source, const std::string& kernel, int arch) {
  return {.source = source,
          .file = kernel + ".cu",
          .arch = arch,
          .headers = cuda::device_library(),
          .options = {"--std=c++17", "--ptxas-options=-v"},
          .minimal = true};
}

GpuCode compile_for_gpu(const Function& function, const KernelName& name, const cuda::Target& target,
                        CubinCompiler& compiler) {
  record_kernel(function, name, target);
  Progress progress("compiling " + name.name);
  const auto compiled = [&](ConfiguredProgram made) {
    cuda::Program& program = made.program;
    check_parameters(function, name, program);
    if (dumps("cuda")) dump(str("// ", name.name, " for sm_", target.arch, '\n', program.source, '\n'));
    CompileResult result = compiler.compile(request_of(program.source, name.name, target.arch), &progress);
    progress.done();
    GpuCode code{std::move(program), std::move(result)};
    const Fault fault =
        fault_of(code.result.log, code.program.entry, allowed_to(code.program.path), code.program.threads);
    const double cost = estimated_cost(code.program, made.configuration,
                                       resources_in(code.result.log, code.program.entry), target);
    return Candidate{made.configuration, "", std::move(code), fault, cost};
  };
  progress.expect(1);
  std::vector<Candidate> tried;
  tried.push_back(compiled({{}, cuda::Program(function, target)}));
  if (tried[0].fault.any()) {
    std::vector<ConfiguredProgram> programs = programs_of(function, target);
    programs.erase(programs.begin());
    std::vector<Waiting> others = by_expected_cost(std::move(programs), tried[0], target);
    const auto keep = [&](const Waiting& other, const std::function<Candidate()>& result) {
      try {
        tried.push_back(result());
      } catch (const Error& error) {  // the usual configuration has compiled
        const std::string text = error.what();
        tried.push_back({other.program.configuration, text.substr(0, text.find('\n')), {}, {}});
      }
      tried.back().order = other.order;
    };
    // Warpgroup instructions with small spills are still faster than others.
    const auto has_group_code = [&](auto is_good) {
      return std::any_of(tried.begin(), tried.end(), [&](const Candidate& candidate) {
        return candidate.failure.empty() && candidate.code->program.path == "wgmma" &&
               is_good(candidate.fault);
      });
    };
    const auto is_clean = [](const Fault& fault) { return !fault.any(); };
    // Groups' kernels cost the same, and stand first.
    while (!others.empty() && others[0].program.program.path == "wgmma" && !has_group_code(is_clean)) {
      keep(others[0], [&] { return compiled(others[0].program); });
      others.erase(others.begin());
    }
    if (has_group_code([](const Fault& fault) { return fault.is_small(); })) others.clear();
    // Two at a time, until none is left that is expected to be faster than one without a fault.
    constexpr size_t at_once = 2;
    for (size_t first = 0; first < others.size(); first += at_once) {
      const bool enough = std::any_of(tried.begin(), tried.end(), [&](const Candidate& candidate) {
        return candidate.failure.empty() && !candidate.fault.any() &&
               candidate.cost <= others[first].expected_cost;
      });
      if (enough) break;
      const size_t end = std::min(first + at_once, others.size());
      progress.expect(static_cast<int>(end - first));
      std::vector<std::future<Candidate>> compiling;
      for (size_t i = first; i < end; ++i)
        compiling.push_back(
            std::async(std::launch::async | std::launch::deferred, compiled, others[i].program));
      for (size_t i = first; i < end; ++i) keep(others[i], [&] { return compiling[i - first].get(); });
    }
    std::stable_sort(tried.begin(), tried.end(),
                     [](const Candidate& x, const Candidate& y) { return x.order < y.order; });
  }
  Candidate* chosen = &tried[0];
  for (Candidate& candidate : tried)
    if (is_better(candidate, *chosen)) chosen = &candidate;
  const auto request = [&](const Candidate& candidate) {
    return request_of(candidate.code->program.source, name.name, target.arch);
  };
  // A pack keeps the logs of the others, because a later process chooses again.
  if (chosen->code->result.cubin.empty())
    chosen->code->result = compiler.compile(request(*chosen), &progress, /*with_code=*/true);
  if (compiler.collects())
    for (const Candidate& candidate : tried)
      if (candidate.failure.empty())
        compiler.collect(request(candidate), candidate.code->result, &candidate == chosen);
  log(name, target, tried, *chosen);
  if (chosen->fault.any() && !chosen->fault.is_small()) warn(name, target, chosen->fault);
  if (chosen->code->program.path != "wgmma" && tried[0].code->program.path == "wgmma")
    chosen->code->program.why =
        "its code with wgmma " +
        (tried[0].fault.loss.empty() ? "spills registers" : "is slow: " + tried[0].fault.loss);
  return *std::move(chosen->code);
}

}  // namespace tile
