// Contexts, modules, functions and launches of the CUDA driver.
#include "driver/driver.h"
#include "driver/driver_device.h"
#include "driver/driver_functions.h"

namespace tile {
namespace {

std::string triple(const std::array<unsigned, 3>& n) { return str("(", n[0], ", ", n[1], ", ", n[2], ")"); }
bool is_cluster(const CudaLaunch& launch) { return launch.cluster != std::array<unsigned, 3>{1, 1, 1}; }

}  // namespace

Driver::Loading::Loading(const Driver& driver, int device)
    : scope_(driver, device), driver_(driver), mode_(capture_mode_relaxed) {
  driver_.f_->exchange_capture_mode(&mode_);
}
Driver::Loading::~Loading() { driver_.f_->exchange_capture_mode(&mode_); }

void* Driver::context(int index) const {
  Device& wanted = device(index);
  if (void* context = wanted.context.load(std::memory_order_acquire)) return context;
  wanted.once([&] {
    void* context = nullptr;
    check(f_->retain_primary(&context, wanted.handle), "no context on ", describe(index));
    wanted.context.store(context, std::memory_order_release);
  });
  return wanted.context;
}

CudaModule Driver::load(int index, std::string_view cubin, const std::string& kernel) const {
  const Loading loading(*this, index);
  CudaModule module{nullptr, kernel, index};
  const int code = f_->module_load(&module.handle, cubin.data());
  check(code, kernel, ": its ", cubin.size(), " bytes of code do not load on ", describe(index));
  return module;
}

void Driver::unload(const CudaModule& module) const {
  const Scope scope(*this, module.device);
  check(f_->module_unload(module.handle), module.kernel, ": its code is not unloaded");
}

CudaFunction Driver::function(const CudaModule& module, const std::string& symbol) const {
  const Scope scope(*this, module.device);
  CudaFunction function{nullptr, intern(module.kernel), module.device};
  const int code = f_->module_function(&function.handle, module.handle, symbol.c_str());
  check(code, module.kernel, ": its code has no function ", symbol);
  return function;
}

Driver::Global Driver::global(const CudaModule& module, const std::string& symbol) const {
  constexpr int not_found = 500;
  const Scope scope(*this, module.device);
  unsigned long long address = 0;
  Global global;
  const int code = f_->module_global(&address, &global.bytes, module.handle, symbol.c_str());
  if (code == not_found) return {};
  check(code, module.kernel, ": the address of its variable ", symbol);
  global.address = address;
  return global;
}

void Driver::copy(const CudaModule& module, const Global& to, const void* data, bool on_device,
                  void* stream) const {
  const Scope scope(*this, module.device);
  const auto from = reinterpret_cast<uint64_t>(data);
  const int code = on_device ? f_->copy_on_device(to.address, from, to.bytes, stream)
                             : f_->copy_from_host(to.address, data, to.bytes, stream);
  check(code, module.kernel, ": copying ", to.bytes, " bytes into a variable of its code");
}

FunctionAttributes Driver::attributes(const CudaFunction& function) const {
  const Scope scope(*this, function.device);
  const auto attribute = [&](FunctionAttribute which) {
    int value = 0;
    check(f_->function_attribute(&value, which, function.handle), function.kernel, ": no attribute ", which);
    return value;
  };
  return {.registers = attribute(function_registers),
          .local_bytes = attribute(function_local_bytes),
          .shared_bytes = attribute(function_shared_bytes),
          .max_threads = attribute(function_max_threads)};
}

void Driver::allow_shared_memory(const CudaFunction& function, int bytes) const {
  const Scope scope(*this, function.device);
  const int code = f_->set_function_attribute(function.handle, function_max_dynamic_shared_bytes, bytes);
  if (code)
    check(code, function.kernel, ": a block cannot have ", bytes, " bytes of shared memory; ",
          describe(function.device), " has ", properties(function.device).shared_bytes, " for it");
}

void Driver::allow_large_clusters(const CudaFunction& function) const {
  const Scope scope(*this, function.device);
  check(f_->set_function_attribute(function.handle, function_large_clusters, 1), function.kernel,
        ": clusters of more than 8 blocks on ", describe(function.device));
}

int Driver::clusters_at_once(const CudaFunction& function, const CudaLaunch& launch) const {
  const Scope scope(*this, function.device);
  const auto& [grid, block, cluster, shared_bytes, stream, programmatic] = launch;
  LaunchAttribute attribute{.id = launch_cluster, .cluster = {cluster[0], cluster[1], cluster[2]}};
  const LaunchConfig config{.grid = {cluster[0], cluster[1], cluster[2]},
                            .block = {block[0], block[1], block[2]},
                            .shared_bytes = shared_bytes,
                            .stream = stream,
                            .attributes = &attribute,
                            .attribute_count = 1};
  int count = 0;
  constexpr int invalid_cluster_size = 912;
  const int code = f_->clusters_at_once(&count, function.handle, &config);
  if (code == invalid_cluster_size) return 0;
  check(code, function.kernel, ": how many clusters of ", triple(cluster), " blocks ",
        describe(function.device), " holds");
  return count;
}

void Driver::launch(const CudaFunction& function, const CudaLaunch& launch, void** parameters) const {
  LaunchAttribute attributes[2];
  const auto& [grid, block, cluster, shared_bytes, stream, programmatic] = launch;
  LaunchConfig config{.grid = {grid[0], grid[1], grid[2]},
                      .block = {block[0], block[1], block[2]},
                      .shared_bytes = shared_bytes,
                      .stream = stream,
                      .attributes = attributes,
                      .attribute_count = 0};
  if (is_cluster(launch))
    attributes[config.attribute_count++] = {.id = launch_cluster,
                                            .cluster = {cluster[0], cluster[1], cluster[2]}};
  if (programmatic) attributes[config.attribute_count++] = {.id = launch_programmatic, .programmatic = 1};
  if (blocking_) [[unlikely]]
    return launch_and_wait(function, launch, &config, parameters);
  const int code = f_->launch(&config, function.handle, parameters, nullptr);
  if (code) [[unlikely]]
    fail_call(code, launch_text(function, launch), function.device);
  devices_[static_cast<size_t>(function.device)]->recent.note(function.kernel);
}

// It waits before the launch as well, even if the driver implements the variable itself, so that an earlier
// error is not attributed to this kernel.
void Driver::launch_and_wait(const CudaFunction& function, const CudaLaunch& launch, void* config,
                             void** parameters) const {
  const bool captured = capture_status(launch.stream) != CaptureStatus::none;
  const auto text = [&] { return launch_text(function, launch); };
  if (!captured)
    if (const int code = f_->wait_for_stream(launch.stream)) fail_call(code, text(), function.device);
  int code = f_->launch(static_cast<const LaunchConfig*>(config), function.handle, parameters, nullptr);
  if (!code && !captured) code = f_->wait_for_stream(launch.stream);
  if (code && !captured) fail_kernel(code, text(), function);
  if (code) fail_call(code, text(), function.device);
  device(function.device).recent.note(function.kernel);
  if (!captured && device(function.device).buffers.load()) raise_failures(function.device);
}

std::string Driver::launch_text(const CudaFunction& function, const CudaLaunch& launch) const {
  const auto& [grid, block, cluster, shared_bytes, stream, programmatic] = launch;
  return str(function.kernel, ": launch of ", triple(grid), " blocks of ", triple(block), " threads",
             is_cluster(launch) ? " in clusters of " + triple(cluster) : "", " with ", shared_bytes,
             " bytes of shared memory on ", describe(function.device));
}

CaptureStatus Driver::capture_status(void* stream) const {
  int status = 0;
  check(f_->is_capturing(stream, &status), "the capture status of a stream");
  return static_cast<CaptureStatus>(status);
}

std::optional<uint64_t> Driver::number_unless_captured(void* stream) const {
  // The status of the default stream is an error while others are captured: so is a launch, which says more.
  int status = 0;
  if (!f_->is_capturing(stream, &status) && static_cast<CaptureStatus>(status) != CaptureStatus::none)
    return std::nullopt;
  unsigned long long number = 0;
  check(f_->stream_id(stream, &number), "the number of a stream");
  return number;
}

}  // namespace tile
