// What the runtime asks torch about CUDA: where the wheel of NVRTC lies, the current device and its stream.
// Through c10's generic interface, so that one library serves a torch with CUDA and one without.
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <filesystem>
#include <optional>

#include "runtime/cuda_kernel.h"
#include "runtime/nvrtc.h"

namespace at {
int get_num_threads();
}

namespace tile {
namespace {

// Beside the torch that the process has loaded.
std::vector<std::string> folders() {
  // libtorch_cpu.so lies in site-packages/torch/lib.
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&at::get_num_threads), &info) || !info.dli_fname) return {};
  const auto packages = std::filesystem::path(info.dli_fname).parent_path().parent_path().parent_path();
  return {(packages / "nvidia/cuda_nvrtc/lib").string(), (packages / "nvidia/cu13/lib").string()};
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

[[maybe_unused]] const bool given =
    (set_nvrtc_folders(folders), set_current_stream(stream), set_current_device(device), true);

}  // namespace
}  // namespace tile
