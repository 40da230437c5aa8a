// What the runtime asks torch about CUDA: its library, where the wheel of NVRTC lies, the current device and
// its stream.
// Through c10's generic interface, so that one library serves a torch with CUDA and one without.
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <filesystem>
#include <optional>

#include "driver/nvrtc.h"
#include "runtime/cuda_kernel.h"

namespace at {
int get_num_threads();
}

namespace tile {
namespace {

// The folder of the torch that the process has loaded: where libtorch_cpu.so lies, site-packages/torch/lib.
std::filesystem::path torch_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&at::get_num_threads), &info) || !info.dli_fname) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

std::vector<std::string> folders() {
  const std::filesystem::path folder = torch_folder();
  if (folder.empty()) return {};
  const auto packages = folder.parent_path().parent_path();
  return {(packages / "nvidia/cuda_nvrtc/lib").string(), (packages / "nvidia/cu13/lib").string()};
}

// A program that was linked without torch's own package has not loaded what lets a CUDA build find GPUs.
void load_torch_cuda() {
  const std::filesystem::path folder = torch_folder(), library = folder / "libtorch_cuda.so";
  std::error_code error;
  if (!folder.empty() && std::filesystem::exists(library, error)) dlopen(library.c_str(), RTLD_LAZY);
}

// Asked only where a tensor is on that device, so torch has CUDA.
void* stream(int device) {
  const c10::Device on(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
  const c10::Stream now = c10::impl::getDeviceGuardImpl(c10::kCUDA)->getStream(on);
  // A stream keeps its handle, and torch switches devices to say it.
  thread_local std::optional<c10::Stream> known;
  thread_local void* handle = nullptr;
  if (known != now) {
    handle = now.native_handle();
    known = now;
  }
  return handle;
}

int device() {
  if (!c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return 0;
  return c10::impl::getDeviceGuardImpl(c10::kCUDA)->getDevice().index();
}

[[maybe_unused]] const bool given = (load_torch_cuda(), set_nvrtc_folders(folders),
                                     set_current_stream(stream), set_current_device(device), true);

}  // namespace
}  // namespace tile
