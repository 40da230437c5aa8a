// Opens the CUDA driver, checks its version, lists its devices and enters their contexts.
#include "driver/driver.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "driver/driver_device.h"
#include "driver/driver_functions.h"
#include "support/env.h"
#include "support/error.h"

namespace tile {
namespace {

constexpr int minimum_version = 12030;
constexpr const char* update = "update the NVIDIA driver to 545 or newer";

std::string cuda_version(int number) { return str(number / 1000, ".", number % 1000 / 10); }

std::atomic<int> fork_count = 0;  // each child process adds one
std::atomic<const Driver*> opened = nullptr;

}  // namespace

Driver::Driver(const std::string& library)
    : f_(std::make_unique<DriverFunctions>()),
      // Parsed as torch parses it.
      blocking_(std::atoi(environment("CUDA_LAUNCH_BLOCKING").c_str()) != 0) {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { ++fork_count; }); });
  expected_forks_ = forks_ = forks();
  open(library);
  check(f_->init(0), "the NVIDIA driver does not start");
  int count = 0;
  check(f_->device_count(&count), "the NVIDIA driver does not count its devices");
  for (int i = 0; i < count; ++i) {
    auto& device = *devices_.emplace_back(std::make_unique<Device>());
    check(f_->device_get(&device.handle, i), "device ", i);
    char name[256] = "";
    check(f_->device_name(name, sizeof name, device.handle), "the name of device ", i);
    const auto attribute = [&](DeviceAttribute which) {
      int value = 0;
      check(f_->device_attribute(&value, which, device.handle), "attribute ", which, " of device ", i);
      return value;
    };
    DeviceProperties& p = device.properties;
    p.name = name;
    p.arch = attribute(attribute_major) * 10 + attribute(attribute_minor);
    p.multiprocessors = attribute(attribute_multiprocessors);
    p.max_threads = attribute(attribute_max_threads);
    p.shared_bytes = attribute(attribute_shared_bytes_optin);
    p.multiprocessor_shared_bytes = attribute(attribute_multiprocessor_shared_bytes);
    p.l2_bytes = attribute(attribute_l2_bytes);
  }
}
Driver::~Driver() = default;

void Driver::open(const std::string& name) {
  const Library library = Library::open(name);
  if (!library)
    fail(ErrorKind::runtime, "no NVIDIA driver: ", library.why(), "; install the NVIDIA driver 545 or newer");
  library.require("cuDriverGetVersion", f_->get_version, update);
  library.require("cuGetErrorName", f_->error_name, update);
  library.require("cuGetErrorString", f_->error_text, update);
  check(f_->get_version(&version_), "the NVIDIA driver does not tell its version");
  if (version_ < minimum_version)
    fail(ErrorKind::runtime, "the NVIDIA driver serves CUDA ", cuda_version(version_), ", and CUDA ",
         cuda_version(minimum_version), " or newer is needed; ", update);
  library.require("cuGetProcAddress_v2", f_->get_address, update);
  // The driver has several versions of some functions. This finds the version that is asked for.
  const auto find = [&](const char* symbol, auto*& function) {
    void* address = nullptr;
    if (f_->get_address(symbol, &address, minimum_version, 0, nullptr) || !address)
      fail(ErrorKind::runtime, library.path(), " has no function ", symbol, "; ", update);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  find("cuInit", f_->init);
  find("cuDeviceGetCount", f_->device_count);
  find("cuDeviceGet", f_->device_get);
  find("cuDeviceGetName", f_->device_name);
  find("cuDeviceGetAttribute", f_->device_attribute);
  find("cuDevicePrimaryCtxRetain", f_->retain_primary);
  find("cuCtxGetCurrent", f_->get_current);
  find("cuCtxSetCurrent", f_->set_current);
  find("cuThreadExchangeStreamCaptureMode", f_->exchange_capture_mode);
  find("cuModuleLoadData", f_->module_load);
  find("cuModuleUnload", f_->module_unload);
  find("cuModuleGetFunction", f_->module_function);
  find("cuModuleGetGlobal", f_->module_global);
  find("cuMemcpyHtoDAsync", f_->copy_from_host);
  find("cuMemcpyDtoDAsync", f_->copy_on_device);
  find("cuFuncGetAttribute", f_->function_attribute);
  find("cuFuncSetAttribute", f_->set_function_attribute);
  find("cuOccupancyMaxActiveClusters", f_->clusters_at_once);
  find("cuLaunchKernelEx", f_->launch);
  find("cuTensorMapEncodeTiled", f_->encode_tensor_map);
  find("cuStreamIsCapturing", f_->is_capturing);
  find("cuStreamGetId", f_->stream_id);
  find("cuMemHostAlloc", f_->host_memory);
  find("cuCtxSynchronize", f_->wait_for_context);
  find("cuStreamSynchronize", f_->wait_for_stream);
}

const Driver& Driver::get() {
  if (const Driver* driver = opened.load(std::memory_order_acquire)) return *driver;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (!opened.load()) {
    const std::string given = environment("TILE_CUDA_DRIVER");
    opened.store(new Driver(given.empty() ? "libcuda.so.1" : given), std::memory_order_release);
  }
  return *opened.load();
}

const Driver* Driver::process_driver() { return opened.load(std::memory_order_acquire); }
int Driver::forks() { return fork_count.load(std::memory_order_relaxed); }

void Driver::check_process() const {
  if (forks() != forks_) [[unlikely]]
    fail(ErrorKind::runtime,
         "CUDA does not work in a process that was forked after CUDA was used; start processes with the "
         "method spawn");
}
void Driver::require_own_process() {
  if (const Driver* driver = opened.load(std::memory_order_acquire)) driver->check_process();
}
void* Driver::enter(int index) const {
  if (forks() != expected_forks_.load(std::memory_order_relaxed)) [[unlikely]]
    look_closer(index);
  void *const wanted = context(index), *current = nullptr;
  check(f_->get_current(&current), "no current context");
  if (current == wanted) return nullptr;
  check(f_->set_current(wanted), "no context on ", describe(index));
  return current;
}
void Driver::leave(void* before) const { f_->set_current(before); }

void Driver::look_closer(int index) const {
  check_process();
  raise_failures(index);
}

Driver::Device& Driver::device(int index) const {
  if (index < 0 || index >= device_count())
    fail(ErrorKind::value, "there is no CUDA device ", index, "; this process has ", device_count());
  return *devices_[static_cast<size_t>(index)];
}

const DeviceProperties& Driver::properties(int index) const { return device(index).properties; }

std::string Driver::describe(int index) const {
  const DeviceProperties& p = properties(index);
  return str("device ", index, " (", p.name, ", sm_", p.arch, ")");
}

}  // namespace tile
