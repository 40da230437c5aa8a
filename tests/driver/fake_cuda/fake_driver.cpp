// A libcuda for machines without a GPU. It runs nothing, and returns the results that a test sets.
#include "driver/fake_cuda/fake_driver.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>

#include "driver/driver_functions.h"

using tile::LaunchAttribute;
using tile::LaunchConfig;

extern "C" FakeDriver* fake_driver() {
  static FakeDriver driver;
  return &driver;
}

// Called by Python through ctypes.
extern "C" void fake_quiet(int quiet) { fake_driver()->quiet = quiet; }
extern "C" const char* fake_last_call() {
  return fake_driver()->calls.empty() ? "" : fake_driver()->calls.back().c_str();
}

namespace {

FakeDriver& fake() { return *fake_driver(); }
std::mutex mutex;  // guards what kernels of several threads record
int result(const char* name) {
  const auto found = fake().results.find(name);
  return found == fake().results.end() ? 0 : found->second;
}
// Records a call and returns its result.
int called(const char* name, const auto&... arguments) {
  std::ostringstream text;
  text << name;
  ((text << ' ' << arguments), ...);
  std::lock_guard lock(mutex);
  fake().calls.push_back(text.str());
  return result(name);
}
// Handles are numbers: for device i, contexts are 100 + i, modules 200 + i, functions 300 + i, and memory
// begins at 4096 (i + 1). As in CUDA, objects of a device are refused if another device's context is current.
void* handle(intptr_t number) { return reinterpret_cast<void*>(number); }
intptr_t number(const void* handle) { return reinterpret_cast<intptr_t>(handle); }

void*& current() {
  std::lock_guard lock(mutex);
  return fake().current[std::this_thread::get_id()];
}
thread_local int capture_mode = 0;

intptr_t current_device() { return current() ? number(current()) - 100 : 0; }
// Returns true if the thread may use objects of a device; tests without a context may.
bool own(intptr_t device) { return !current() || device == current_device(); }
bool own_module(const void* module) { return own(number(module) - 200); }
bool own_function(const void* function) { return own(number(function) - 300); }
constexpr int invalid_context = 201, invalid_handle = 400;

int init(unsigned) { return result("cuInit"); }
int device_count(int* count) {
  *count = fake().devices;
  return result("cuDeviceGetCount");
}
int device_get(int* device, int index) {
  *device = index;
  return result("cuDeviceGet");
}
int device_name(char* name, int size, int device) {
  std::strncpy(name, device ? "Small GPU" : "Fake GPU", static_cast<size_t>(size));
  return result("cuDeviceGetName");
}
int device_attribute(int* value, int which, int device) {
  const int arch = fake().archs.at(static_cast<size_t>(device));
  const std::map<int, int> values = {
      {tile::attribute_max_threads, 1024},         {tile::attribute_multiprocessors, device ? 8 : 132},
      {tile::attribute_l2_bytes, 1 << 20},         {tile::attribute_major, arch / 10},
      {tile::attribute_minor, arch % 10},          {tile::attribute_multiprocessor_shared_bytes, 233472},
      {tile::attribute_shared_bytes_optin, 232448}};
  *value = values.at(which);
  return result("cuDeviceGetAttribute");
}
int retain_primary(void** context, int device) {
  *context = handle(100 + device);
  return called("cuDevicePrimaryCtxRetain", device);
}
int get_current(void** context) {
  *context = current();
  return result("cuCtxGetCurrent");
}
int set_current(void* context) {
  if (const int code = called("cuCtxSetCurrent", number(context))) return code;
  current() = context;
  return 0;
}
int exchange_capture_mode(int* mode) {
  std::swap(*mode, capture_mode);
  return called("cuThreadExchangeStreamCaptureMode", capture_mode);
}
int module_load(void** module, const void* image) {
  *module = handle(200 + current_device());
  return called("cuModuleLoadData", static_cast<const char*>(image), "mode", capture_mode);
}
int module_unload(void* module) {
  if (!own_module(module)) return invalid_context;
  return called("cuModuleUnload", number(module));
}
int module_function(void** function, void* module, const char* name) {
  if (!own_module(module)) return invalid_context;
  *function = handle(number(module) + 100);
  return called("cuModuleGetFunction", number(module), name);
}
// There is one variable, of 16 bytes.
int module_global(unsigned long long* address, size_t* bytes, void* module, const char* name) {
  if (!own_module(module)) return invalid_context;
  if (std::string(name) != "weights") return 500;
  *address = 4096ull * static_cast<unsigned long long>(number(module) - 199);
  *bytes = 16;
  return result("cuModuleGetGlobal");
}
int copy_from_host(unsigned long long to, const void* from, size_t bytes, void* stream) {
  return called("cuMemcpyHtoDAsync", to, std::string(static_cast<const char*>(from), bytes), "stream",
                number(stream));
}
int copy_on_device(unsigned long long to, unsigned long long from, size_t bytes, void* stream) {
  return called("cuMemcpyDtoDAsync", to, from, bytes, "stream", number(stream));
}
int function_attribute(int* value, int which, void*) {
  const std::map<int, int> values = {{tile::function_registers, 40},
                                     {tile::function_local_bytes, 16},
                                     {tile::function_shared_bytes, 2048},
                                     {tile::function_max_threads, 512}};
  *value = values.at(which);
  return result("cuFuncGetAttribute");
}
int set_function_attribute(void* function, int which, int value) {
  if (!own_function(function)) return invalid_handle;
  return called("cuFuncSetAttribute", number(function), which, value);
}
int clusters_at_once(int* count, void* function, const LaunchConfig* c) {
  if (!own_function(function)) return invalid_handle;
  *count = c->attributes[0].cluster[0] <= fake().cluster_blocks ? 8 : 0;
  return called("cuOccupancyMaxActiveClusters", number(function), c->attributes[0].cluster[0]);
}
int launch(const LaunchConfig* c, void* function, void** parameters, void** extra) {
  if (fake().quiet) return 0;
  if (!own_function(function)) return invalid_handle;
  std::ostringstream text;
  for (unsigned i = 0; i < c->attribute_count; ++i) {
    const LaunchAttribute& a = c->attributes[i];
    text << ' ' << a.id << ':' << a.cluster[0];
    if (a.id == tile::launch_cluster) text << ' ' << a.cluster[1] << ' ' << a.cluster[2];
  }
  {
    std::lock_guard lock(mutex);
    fake().parameters.clear();
    for (size_t i = 0; i < fake().parameter_bytes.size(); ++i)
      fake().parameters.emplace_back(static_cast<const char*>(parameters[i]), fake().parameter_bytes[i]);
  }
  return called("cuLaunchKernelEx", number(function), "grid", c->grid[0], c->grid[1], c->grid[2], "block",
                c->block[0], c->block[1], c->block[2], "shared", c->shared_bytes, "stream", number(c->stream),
                "first", *static_cast<int*>(parameters[0]), "extra", number(extra),
                "attributes" + text.str());
}
// The map begins with the address and the number of maps encoded so far.
int encode_tensor_map(void* map, int type, unsigned rank, void* address, const uint64_t* sizes,
                      const uint64_t* strides, const unsigned* box, const unsigned* steps, int interleave,
                      int swizzle, int promotion, int fill) {
  const auto list = [](const char* name, const auto* values, unsigned count) {
    std::ostringstream text;
    text << name;
    for (unsigned i = 0; i < count; ++i) text << ' ' << values[i];
    return text.str();
  };
  std::vector<uint64_t> words(16);
  {
    std::lock_guard lock(mutex);
    words[0] = reinterpret_cast<uint64_t>(address), words[1] = ++fake().encoded;
  }
  std::memcpy(map, words.data(), 128);
  return called("cuTensorMapEncodeTiled", "type", type, "at", number(address), list("sizes", sizes, rank),
                list("strides", strides, rank - 1), list("box", box, rank), list("steps", steps, rank),
                "interleave", interleave, "swizzle", swizzle, "promotion", promotion, "fill", fill);
}
int is_capturing(void*, int* status) {
  *status = fake().capturing;
  return result("cuStreamIsCapturing");
}
int stream_id(void* stream, unsigned long long* id) {
  *id = reinterpret_cast<uint64_t>(stream) + 1;
  return result("cuStreamGetId");
}

// The last allocation is where kernels would write. None is freed, as with a real driver.
int host_memory(void** memory, size_t bytes, unsigned flags) {
  static auto* const given = new std::vector<void*>;
  if (const int code = called("cuMemHostAlloc", bytes, flags, "mode", capture_mode)) return code;
  std::lock_guard lock(mutex);
  given->push_back(fake().host_memory = *memory = std::aligned_alloc(4096, bytes));
  return 0;
}
int wait_for_context() { return called("cuCtxSynchronize"); }
int wait_for_stream(void* stream) {
  const int code = called("cuStreamSynchronize", number(stream));
  return fake().waits_until_failure && fake().waits_until_failure-- > 1 ? 0 : code;
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = fake().version;
  return result("cuDriverGetVersion");
}
int cuGetErrorName(int code, const char** name) {
  static const std::map<int, const char*> names = {{1, "CUDA_ERROR_INVALID_VALUE"},
                                                   {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                   {3, "CUDA_ERROR_NOT_INITIALIZED"},
                                                   {34, "CUDA_ERROR_STUB_LIBRARY"},
                                                   {100, "CUDA_ERROR_NO_DEVICE"},
                                                   {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                   {500, "CUDA_ERROR_NOT_FOUND"},
                                                   {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                   {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
                                                   {710, "CUDA_ERROR_ASSERT"},
                                                   {719, "CUDA_ERROR_LAUNCH_FAILED"},
                                                   {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"}};
  const auto found = names.find(code);
  *name = found == names.end() ? nullptr : found->second;
  return *name ? 0 : 1;
}
int cuGetErrorString(int code, const char** text) {
  static std::string meaning;
  meaning = "meaning of " + std::to_string(code);
  *text = meaning.c_str();
  return 0;
}
int cuGetProcAddress_v2(const char* name, void** address, int version, unsigned long long, int*) {
  const std::map<std::string, void*> functions = {
      {"cuInit", reinterpret_cast<void*>(init)},
      {"cuDeviceGetCount", reinterpret_cast<void*>(device_count)},
      {"cuDeviceGet", reinterpret_cast<void*>(device_get)},
      {"cuDeviceGetName", reinterpret_cast<void*>(device_name)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(device_attribute)},
      {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(retain_primary)},
      {"cuCtxGetCurrent", reinterpret_cast<void*>(get_current)},
      {"cuCtxSetCurrent", reinterpret_cast<void*>(set_current)},
      {"cuThreadExchangeStreamCaptureMode", reinterpret_cast<void*>(exchange_capture_mode)},
      {"cuModuleLoadData", reinterpret_cast<void*>(module_load)},
      {"cuModuleUnload", reinterpret_cast<void*>(module_unload)},
      {"cuModuleGetFunction", reinterpret_cast<void*>(module_function)},
      {"cuModuleGetGlobal", reinterpret_cast<void*>(module_global)},
      {"cuMemcpyHtoDAsync", reinterpret_cast<void*>(copy_from_host)},
      {"cuMemcpyDtoDAsync", reinterpret_cast<void*>(copy_on_device)},
      {"cuFuncGetAttribute", reinterpret_cast<void*>(function_attribute)},
      {"cuFuncSetAttribute", reinterpret_cast<void*>(set_function_attribute)},
      {"cuOccupancyMaxActiveClusters", reinterpret_cast<void*>(clusters_at_once)},
      {"cuLaunchKernelEx", reinterpret_cast<void*>(launch)},
      {"cuTensorMapEncodeTiled", reinterpret_cast<void*>(encode_tensor_map)},
      {"cuStreamIsCapturing", reinterpret_cast<void*>(is_capturing)},
      {"cuStreamGetId", reinterpret_cast<void*>(stream_id)},
      {"cuMemHostAlloc", reinterpret_cast<void*>(host_memory)},
      {"cuCtxSynchronize", reinterpret_cast<void*>(wait_for_context)},
      {"cuStreamSynchronize", reinterpret_cast<void*>(wait_for_stream)},
  };
  const auto found = functions.find(name);
  if (found == functions.end() || name == fake().missing || version > fake().version) return 500;
  *address = found->second;
  return 0;
}

}  // extern "C"
