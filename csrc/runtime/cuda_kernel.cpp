// From a function to a launch on a GPU.
#include "runtime/cuda_kernel.h"

#include <limits>

#include "runtime/gpu_code.h"
#include "support/log.h"

namespace tile {
namespace {

constexpr int oldest_chip = 80;
constexpr int shared_bytes_without_asking = 48 * 1024;

cuda::Target target_on(const DeviceProperties& device) {
  return {.chip = device.chip, .shared_bytes = device.shared_bytes, .max_threads = device.max_threads};
}
bool same(const cuda::Target& a, const cuda::Target& b) {
  return a.chip == b.chip && a.shared_bytes == b.shared_bytes && a.max_threads == b.max_threads;
}

int device_of(ArgumentRefs arguments) {
  for (const ArgumentRef& argument : arguments)
    if (argument.array) return argument.array->device_index;
  return 0;
}

}  // namespace

CudaKernel::CudaKernel(Function function, KernelName name, const Driver& driver, CubinCompiler& compiler)
    : function_(std::move(function)),
      name_(std::move(name)),
      driver_(driver),
      compiler_(compiler),
      devices_(std::make_unique<Device[]>(static_cast<size_t>(driver.device_count()))) {}

// Its code stays loaded: a captured graph may launch it later, and at the end of a process the driver goes
// first.
CudaKernel::~CudaKernel() = default;

std::string CudaKernel::label() const {
  return name_.where.known() ? str(name_.where, ": ", name_.name) : name_.name;
}

const CudaKernel::Code& CudaKernel::code_for(int device) const {
  const DeviceProperties& properties = driver_.properties(device);
  if (properties.chip < oldest_chip)
    fail(name_.where, ErrorKind::unsupported, "launch of ", name_.name, ": device ", device, " (",
         properties.name, ") is sm_", properties.chip, ", and kernels need sm_", oldest_chip,
         " or newer; use a GPU of the Ampere generation or a later one");
  const cuda::Target target = target_on(properties);
  std::lock_guard lock(mutex_);
  for (const auto& code : codes_)
    if (same(code->target, target)) return *code;
  std::vector<Type> types;
  for (const Value* parameter : function_.body().arguments) types.push_back(parameter->type);
  CudaParameters parameters(types);
  if (parameters.bytes() > CudaParameters::most_bytes)
    fail(name_.where, ErrorKind::value, "launch of ", name_.name, ": its arguments take ", parameters.bytes(),
         " bytes, and a GPU kernel takes at most ", CudaParameters::most_bytes, "; pass fewer arrays");
  auto [program, result] = compile_for_gpu(function_, name_, target, compiler_);
  return *codes_.emplace_back(
      std::make_unique<Code>(Code{target, std::move(program), std::move(parameters), std::move(result)}));
}

void CudaKernel::load(Device& device, int index) const {
  const Stopwatch time;
  Loaded& loaded = device.loaded;
  loaded.code = &code_for(index);
  const cuda::Program& program = loaded.code->program;
  const CudaModule module = driver_.load(index, loaded.code->result.cubin, label());
  loaded.function = driver_.function(module, program.entry);
  loaded.attributes = driver_.attributes(loaded.function);
  if (program.shared_bytes > shared_bytes_without_asking)
    driver_.allow_shared_memory(loaded.function, program.shared_bytes);
  log_line(name_.name, ": compiled for sm_", loaded.code->target.chip, " and loaded on device ", index,
           " in ", time.text(), ", ", loaded.code->result.from_disk ? "from the cache " : "NVRTC ",
           Stopwatch::text(loaded.code->result.seconds), " of it");
  device.ready.store(true, std::memory_order_release);
}

const CudaKernel::Loaded& CudaKernel::on(int index) const {
  driver_.properties(index);  // error: no such device
  Device& device = devices_[static_cast<size_t>(index)];
  if (!device.ready.load(std::memory_order_acquire))
    std::call_once(device.once, [&] { load(device, index); });
  return device.loaded;
}

void CudaKernel::run(const Blocks& blocks, ArgumentRefs arguments) const {
  const int device = device_of(arguments);
  const Loaded& loaded = on(device);
  CudaParameters::Packed packed;
  loaded.code->parameters.pack(arguments, packed);
  const auto count = [&](size_t axis) { return static_cast<unsigned>(blocks[axis]); };
  const Driver::Scope scope(driver_, device);
  driver_.launch(loaded.function,
                 {.grid = {count(0), count(1), count(2)},
                  .block = {static_cast<unsigned>(loaded.code->program.threads), 1, 1},
                  .shared_bytes = static_cast<unsigned>(loaded.code->program.shared_bytes),
                  .stream = current_stream(device)},
                 packed.pointers);
}

const Target cuda_target = {
    .most_blocks = {std::numeric_limits<int32_t>::max(), 65535, 65535},
    .grid_limit = "on a GPU its axes must be at most 2147483647, 65535 and 65535, make the longest the first",
    .compile = [](Function function, const KernelName& name) -> std::unique_ptr<Executable> {
      return std::make_unique<CudaKernel>(std::move(function), name, Driver::get(), CubinCompiler::get());
    },
    .compiles_at_once = false};

}  // namespace tile
