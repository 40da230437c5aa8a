// Launches of CUDA C++ kernels.
#include "raw_cuda/raw_kernel.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "driver/current_stream.h"
#include "runtime/derivation.h"
#include "runtime/launch_range.h"

namespace tile {
namespace {

std::array<int64_t, 3> axes(std::initializer_list<int64_t> given, const char* what) {
  std::array<int64_t, 3> all{1, 1, 1};
  if (given.size() > all.size())
    fail(ErrorKind::value, "a launch: the ", what, " has ", given.size(), " axes; the most is 3");
  std::copy(given.begin(), given.end(), all.begin());
  return all;
}

std::string triple(const std::array<int64_t, 3>& n) { return str("(", n[0], ", ", n[1], ", ", n[2], ")"); }

}  // namespace

RawGrid::RawGrid(std::initializer_list<int64_t> grid_axes, std::initializer_list<int64_t> block_axes,
                 int64_t shared)
    : grid(axes(grid_axes, "grid")), block(axes(block_axes, "block")), shared_bytes(shared) {}

RawKernel::RawKernel(std::string source, std::string name, CudaSourceOptions options)
    : RawKernel(
          std::make_shared<CudaSource>(std::move(source), std::vector{std::move(name)}, std::move(options)),
          0) {}
RawKernel::RawKernel(std::shared_ptr<const CudaSource> source, size_t index)
    : source_(std::move(source)), index_(index) {}

int RawKernel::device_of(std::span<const RawArgument> arguments) const {
  const RawArgument* first = nullptr;
  for (const RawArgument& argument : arguments) {
    if (argument.kind != RawArgument::Kind::array || argument.device != DeviceKind::cuda) continue;
    if (first && argument.device_index != first->device_index) [[unlikely]]
      fail(ErrorKind::value, name(), ": argument ", first - arguments.data() + 1, " is on device ",
           first->device_index, " and argument ", &argument - arguments.data() + 1, " on device ",
           argument.device_index, "; move them to one");
    if (!first) first = &argument;
  }
  return first ? first->device_index : current_device();
}

void RawKernel::check_grid(const RawGrid& launch, int device, const CudaSource::Loaded& loaded) const {
  constexpr std::array<int64_t, 3> most_threads = {1024, 1024, 64};
  const auto& [grid, block, shared_bytes] = launch;
  for (size_t axis = 0; axis < 3; ++axis) {
    if (grid[axis] < 0 || grid[axis] > most_blocks[axis])
      fail(ErrorKind::value, name(), ": the grid is ", triple(grid),
           "; its axes must be at least 0 and at most 2147483647, 65535 and 65535");
    if (block[axis] < 1 || block[axis] > most_threads[axis])
      fail(ErrorKind::value, name(), ": the block is ", triple(block),
           "; its axes must be at least 1 and at most 1024, 1024 and 64");
  }
  const int64_t threads = block[0] * block[1] * block[2];
  if (threads > loaded.attributes[index_].max_threads)
    fail(ErrorKind::value, name(), ": a block of ", triple(block), " has ", threads,
         " threads; this kernel can have ", loaded.attributes[index_].max_threads, " on device ", device,
         ", take fewer, or declare it __launch_bounds__(", std::min<int64_t>(threads, 1024), ")");
  if (shared_bytes < 0 || shared_bytes > std::numeric_limits<int32_t>::max())
    fail(ErrorKind::value, name(), ": ", shared_bytes, " bytes of shared memory; give what a block can have");
}

const std::vector<CType>& RawKernel::launch_raw(const RawGrid& launch,
                                                std::span<const RawArgument> arguments) const {
  if (Derivation::of_thread()) [[unlikely]]
    Derivation::require_none(str("launch of ", name(), ": a kernel of CUDA C++"));
  const int device = device_of(arguments);
  const CudaSource::Loaded& loaded = source_->on(device);
  const CudaSource::Kernel& kernel = loaded.code->kernels[index_];
  const size_t count = kernel.parameters.size();
  if (arguments.size() != count) [[unlikely]]
    fail(ErrorKind::type, name(), ": takes ", count, count == 1 ? " argument (" : " arguments (",
         join(
             kernel.parameters, ", ", [](const CType& type) -> const auto& { return type.text; }),
         ") but is given ", arguments.size(), "; give one for each");
  check_grid(launch, device, loaded);

  alignas(16) char few[1024];
  void* pointers[most_arguments];
  std::vector<char> many;
  if (count > most_arguments)
    fail(ErrorKind::value, name(), ": takes ", count, " arguments; the most is ", most_arguments);
  if (kernel.parameter_bytes > sizeof few) many.resize(kernel.parameter_bytes + 15);
  char* const data =
      many.empty() ? few : many.data() + (16 - reinterpret_cast<uintptr_t>(many.data()) % 16) % 16;
  for (size_t i = 0; i < count; ++i) {
    pointers[i] = data + kernel.offsets[i];
    put_argument(name(), i + 1, kernel.parameters[i], arguments[i], pointers[i]);
  }
  const auto& [grid, block, shared_bytes] = launch;
  if (!grid[0] || !grid[1] || !grid[2]) return kernel.parameters;

  const LaunchRange range({.kernel = name()});
  const Driver& driver = source_->driver();
  const Driver::Scope scope(driver, device);
  const CudaFunction& function = loaded.functions[index_];
  std::atomic<unsigned>& allowed = loaded.shared_bytes[index_];
  const auto shared = static_cast<unsigned>(shared_bytes);
  if (shared_bytes + loaded.attributes[index_].shared_bytes > shared_bytes_without_asking &&
      shared > allowed.load(std::memory_order_acquire)) {
    static std::mutex growing;  // without it, a thread with a smaller limit could overwrite a larger one
    const std::lock_guard lock(growing);
    if (shared > allowed.load()) driver.allow_shared_memory(function, static_cast<int>(shared));
    allowed = std::max(shared, allowed.load());
  }
  const auto triple_of = [](const std::array<int64_t, 3>& n) {
    return std::array{static_cast<unsigned>(n[0]), static_cast<unsigned>(n[1]), static_cast<unsigned>(n[2])};
  };
  driver.launch(function,
                {.grid = triple_of(grid),
                 .block = triple_of(block),
                 .cluster = source_->options().cluster,
                 .shared_bytes = shared,
                 .stream = current_stream(device),
                 .programmatic = source_->options().programmatic},
                pointers);
  return kernel.parameters;
}

}  // namespace tile
