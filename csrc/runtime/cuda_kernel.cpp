// Compiles, loads and launches kernels on GPUs.
#include "runtime/cuda_kernel.h"

#include <algorithm>
#include <utility>

#include "runtime/gpu_code.h"
#include "support/log.h"

namespace tile {
namespace {

int device_of(ArgumentRefs arguments) {
  for (const ArgumentRef& argument : arguments)
    if (argument.array) return argument.array->device_index;
  return 0;
}

int long_axis_of(const Blocks& blocks) {
  for (const int axis : {1, 2})
    if (const auto i = static_cast<size_t>(axis); blocks[i] > most_blocks[i]) return axis;
  return 0;
}

CudaLaunch shape_of(const cuda::Program& program) {
  return {.block = {static_cast<unsigned>(program.threads), 1, 1},
          .cluster = {static_cast<unsigned>(program.cluster), 1, 1},
          .shared_bytes = static_cast<unsigned>(program.shared_bytes)};
}

}  // namespace

CudaKernel::CudaKernel(Function function, KernelName name, const Driver& driver, CubinCompiler& compiler)
    : function_(std::move(function)),
      name_(std::move(name)),
      driver_(driver),
      compiler_(compiler),
      slots_(std::make_unique<std::array<Slot, 3>[]>(static_cast<size_t>(driver.device_count()))) {}

// The code stays loaded: a captured graph may launch it later, and at the end of a process the driver may be
// unloaded first.
CudaKernel::~CudaKernel() = default;

std::string CudaKernel::label() const {
  return name_.where.known() ? str(name_.where, ": ", name_.name) : name_.name;
}

const CudaKernel::Code& CudaKernel::code_for(int device, int long_axis, int cluster_blocks) const {
  const DeviceProperties& properties = driver_.properties(device);
  if (properties.arch < cuda::oldest_arch)
    fail(name_.where, ErrorKind::unsupported, "launch of ", name_.name, ": device ", device, " (",
         properties.name, ") is sm_", properties.arch, ", and kernels need sm_", cuda::oldest_arch,
         " or newer; use a GPU of the Ampere generation or a later one");
  const cuda::Target target{.arch = properties.arch,
                            .shared_bytes = properties.shared_bytes,
                            .max_threads = properties.max_threads,
                            .cluster_blocks = cluster_blocks,
                            .long_axis = long_axis};
  std::lock_guard lock(mutex_);
  for (const auto& code : codes_)
    if (code->target == target) return *code;
  compiler_.set_driver(driver_.version());
  auto [program, result] = compile_for_gpu(function_, name_, target, compiler_);
  const CudaParameters parameters(function_, program);
  return *codes_.emplace_back(
      std::make_unique<Code>(Code{target, std::move(program), std::move(result), parameters}));
}

std::pair<CudaModule, CudaFunction> CudaKernel::load(const Code& code, int device) const {
  const CudaModule module = driver_.load(device, code.result.cubin, label());
  const CudaFunction function = driver_.function(module, code.program.entry);
  if (code.program.shared_bytes > shared_bytes_without_asking)
    driver_.allow_shared_memory(function, code.program.shared_bytes);
  return {module, function};
}

bool CudaKernel::load(Loaded& loaded, const Code& code, int device) const {
  const cuda::Program& program = code.program;
  loaded.code = &code;
  const Driver::Loading loading(driver_, device);
  const auto [module, function] = load(code, device);
  loaded.function = function;
  loaded.attributes = driver_.attributes(function);
  if (program.draws) loaded.counters = std::make_unique<BlockCounters>(function);
  if (program.cluster == 1) return true;
  if (program.cluster > cuda::portable_cluster_blocks) driver_.allow_large_clusters(loaded.function);
  loaded.clusters = driver_.clusters_at_once(loaded.function, shape_of(program));
  if (loaded.clusters > 0) return true;
  driver_.unload(module);
  return false;
}

void CudaKernel::load(Slot& slot, int device, int long_axis) const {
  const Stopwatch time;
  Loaded& loaded = slot.loaded;
  // A chip may have no room for a large cluster, so smaller ones are tried, finally a single block.
  for (int blocks = cuda::Target().cluster_blocks;
       !load(loaded, code_for(device, long_axis, blocks), device);)
    blocks = loaded.code->program.cluster / 2;
  if (const auto& program = loaded.code->program; !program.assertions.empty())
    loaded.failures = driver_.register_kernel(
        device, {.assertions = program.assertions.size(),
                 .text =
                     [assertions = program.assertions](size_t assertion, int64_t element,
                                                       const std::array<int64_t, 3>& block) {
                       return failure_text(assertions[assertion], element, block);
                     },
                 .cluster = program.cluster,
                 .long_axis = long_axis});
  if (const auto& maps = loaded.code->program.tensor_maps; !maps.empty())
    loaded.tensor_maps = std::make_unique<TensorMaps>(maps);
  log_line(name_.name, ": compiled for sm_", loaded.code->target.arch, " and loaded on device ", device,
           loaded.code->program.cluster > 1 ? str(" in clusters of ", loaded.code->program.cluster, " blocks")
                                            : "",
           " in ", time.text(), ", ",
           loaded.code->result.from_disk || loaded.code->result.from_pack ? "from the " : "",
           origin(loaded.code->result), ' ', Stopwatch::text(loaded.code->result.seconds), " of it");
  slot.ready.store(true, std::memory_order_release);
}

const CudaKernel::Loaded& CudaKernel::on(int device, int long_axis) const {
  driver_.properties(device);  // throws if there is no such device
  Slot& slot = slots_[static_cast<size_t>(device)][static_cast<size_t>(long_axis)];
  if (!slot.ready.load(std::memory_order_acquire)) slot.once([&] { load(slot, device, long_axis); });
  return slot.loaded;
}

void CudaKernel::run(const Blocks& blocks, ArgumentRefs arguments) const {
  const int device = device_of(arguments);
  const int long_axis = long_axis_of(blocks);
  const Loaded& loaded = on(device, long_axis);
  const auto count = [&](size_t axis) { return static_cast<unsigned>(blocks[axis]); };
  std::array<unsigned, 3> grid = {count(0), count(1), count(2)};
  std::swap(grid[0], grid[static_cast<size_t>(long_axis)]);
  const Code& code = *loaded.code;
  CudaLaunch launch = shape_of(code.program);
  if (!code.program.persistent && grid[0] > most_blocks[0] / launch.cluster[0]) [[unlikely]]
    fail(name_.where, ErrorKind::value, "launch of ", name_.name, ": the grid is (", blocks[0], ", ",
         blocks[1], ", ", blocks[2], "), each of its blocks a cluster of ", launch.cluster[0],
         "; on a GPU these are at most ", most_blocks[0], " along an axis, launch fewer");
  grid[0] *= launch.cluster[0];
  std::array<int32_t, 3> user_grid = {};
  if (code.program.persistent) {
    const int64_t all = blocks[0] * blocks[1] * blocks[2];
    // Each CTA that draws blocks counts one beyond the last.
    const int multiprocessors = driver_.properties(device).multiprocessors;
    const int64_t most = most_blocks[0] - (code.program.draws ? multiprocessors : 0);
    if (all > most) [[unlikely]]
      fail(name_.where, ErrorKind::value, "launch of ", name_.name, ": the grid has ", all,
           " blocks; a kernel with wgmma runs at most ", most, ", launch fewer");
    for (size_t axis = 0; axis < 3; ++axis) user_grid[axis] = static_cast<int32_t>(count(axis));
    const auto at_once = [](int64_t wanted, int room) {
      return static_cast<unsigned>(std::min<int64_t>(wanted, room));
    };
    if (const int axis = code.program.pair_axis; axis >= 0) {
      const auto paired = static_cast<size_t>(axis);
      const int64_t pairs = all / blocks[paired] * ((blocks[paired] + 1) / 2);
      grid = {2, at_once(pairs, loaded.clusters), 1};
    } else {
      grid = {at_once(all, multiprocessors), 1, 1};
    }
  }
  launch.grid = grid;
  launch.programmatic = cuda::may_start_early(code.target);
  launch.stream = current_stream(device);
  CudaParameters::Packed packed;
  const Driver::Scope scope(driver_, device);
  BlockCounters::Choice choice{loaded.function};
  if (loaded.counters)
    choice = loaded.counters->of(driver_.number_unless_captured(launch.stream), [&] {
      const Driver::Loading loading(driver_, device);
      return load(code, device).second;
    });
  // The compiled code does not assume that its launches start early; see dependent.cuh.
  code.parameters.pack(arguments,
                       {.failures = loaded.failures,
                        .block_counter = choice.counter,
                        .starts_early = launch.programmatic,
                        .grid = user_grid},
                       packed);
  if (loaded.tensor_maps)
    loaded.tensor_maps->write(driver_, loaded.function, arguments, code.parameters.tensor_maps(packed));
  driver_.launch(choice.function, launch, packed.pointers);
}

const Target cuda_target = {
    .longest_axis = most_blocks[0],
    .other_axes = most_blocks[1],
    .grid_limit = "on a GPU one axis must be at most 2147483647 and the others at most 65535",
    .compile = [](Function function, const KernelName& name) -> std::unique_ptr<Executable> {
      return std::make_unique<CudaKernel>(std::move(function), name, Driver::get(), CubinCompiler::get());
    },
    .compiles_at_once = false};

}  // namespace tile
