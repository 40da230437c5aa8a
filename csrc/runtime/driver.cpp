// Opens the CUDA driver, checks its version, lists its devices, words its errors.
#include "runtime/driver.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "runtime/driver_device.h"
#include "runtime/driver_functions.h"
#include "support/env.h"
#include "support/error.h"

namespace tile {
namespace {

constexpr int minimum_version = 12030;
constexpr const char* update = "update the NVIDIA driver to 545 or newer";

std::string cuda_version(int number) { return str(number / 1000, ".", number % 1000 / 10); }

std::atomic<int> forks = 0;  // counted by each child
std::atomic<const Driver*> opened = nullptr;

// What to do about a CUresult.
struct Advice {
  int first, last;
  const char* text;
};
constexpr const char* crashed =
    "this kernel or one before it did it: run with CUDA_LAUNCH_BLOCKING=1 to see which, and restart the "
    "process";
constexpr const char* no_code = "NVRTC may be newer than the driver: update the driver";
constexpr Advice advices[] = {
    {2, 2, "free memory of the device"},
    {3, 3, "where this process was forked after CUDA was used: start processes with the method spawn"},
    {34, 34, "the library is a toolkit's stub: take its folder out of LD_LIBRARY_PATH"},
    {100, 100, "look at nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {200, 200, no_code},
    {209, 209, no_code},
    {700, 700, crashed},
    {701, 701, "a block needs more registers or shared memory than there are: use smaller tiles"},
    {702, 702, crashed},
    {710, 710, crashed},
    {714, 719, crashed},
    {803, 803, "the driver was updated under the running system: restart the machine"},
    {900, 908, "run the kernel once before the capture"},
    {912, 912, "use a smaller cluster"},
};

}  // namespace

Driver::Driver(const std::string& library) : f_(std::make_unique<DriverFunctions>()) {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { ++forks; }); });
  forks_ = forks;
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
    p.chip = attribute(attribute_major) * 10 + attribute(attribute_minor);
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
  // The driver keeps several versions of some functions; this gives those of the version asked for.
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
  find("cuStreamIsCapturing", f_->is_capturing);
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

void Driver::check_process() const {
  if (forks.load(std::memory_order_relaxed) != forks_) [[unlikely]]
    fail(ErrorKind::runtime,
         "CUDA does not work in a process that was forked after CUDA was used; start processes with the "
         "method spawn");
}
void Driver::require_own_process() {
  if (const Driver* driver = opened.load(std::memory_order_acquire)) driver->check_process();
}

Driver::Device& Driver::device(int index) const {
  if (index < 0 || index >= device_count())
    fail(ErrorKind::value, "there is no CUDA device ", index, "; this process has ", device_count());
  return *devices_[static_cast<size_t>(index)];
}

const DeviceProperties& Driver::properties(int index) const { return device(index).properties; }

std::string Driver::describe(int index) const {
  const DeviceProperties& p = properties(index);
  return str("device ", index, " (", p.name, ", sm_", p.chip, ")");
}

void Driver::fail_call(int code, const std::string& what) const {
  const char *name = nullptr, *text = nullptr;
  f_->error_name(code, &name);
  f_->error_text(code, &text);
  const std::string fact = name ? str(name, " (", text ? text : "no text", ")") : str("CUresult ", code);
  const char* advice = nullptr;
  for (const Advice& row : advices)
    if (row.first <= code && code <= row.last) advice = row.text;
  fail(ErrorKind::runtime, what, ": ", fact, advice ? "; " : "", advice ? advice : "");
}

}  // namespace tile
