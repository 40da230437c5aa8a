// Answers the runtime's questions about CUDA through torch: its library, the folder of the NVRTC wheel, the
// current device and its stream. It uses c10's generic interface, so that one library works with and without
// CUDA in torch.
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

// Returns the folder of the torch that the process has loaded: site-packages/torch/lib, which contains
// libtorch_cpu.so.
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

// A program that was not linked with torch's CMake package has not loaded the library by which a CUDA build
// finds GPUs.
void load_torch_cuda() {
  const std::filesystem::path folder = torch_folder(), library = folder / "libtorch_cuda.so";
  std::error_code error;
  if (!folder.empty() && std::filesystem::exists(library, error)) dlopen(library.c_str(), RTLD_LAZY);
}

// Only called if a tensor is on that device, so torch has CUDA.
void* stream(int device) {
  const c10::Device on(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
  const c10::Stream now = c10::impl::getDeviceGuardImpl(c10::kCUDA)->getStream(on);
  // A stream's handle never changes, and torch switches devices to return it, so it is cached.
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
