// Tells the runtime where torch's wheel of NVRTC lies: beside the torch that the process has loaded.
#include "runtime/nvrtc.h"

#include <dlfcn.h>

#include <filesystem>

namespace at {
int get_num_threads();
}

namespace tile {
namespace {

std::vector<std::string> folders() {
  // libtorch_cpu.so lies in site-packages/torch/lib.
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&at::get_num_threads), &info) || !info.dli_fname) return {};
  const auto packages = std::filesystem::path(info.dli_fname).parent_path().parent_path().parent_path();
  return {(packages / "nvidia/cuda_nvrtc/lib").string(), (packages / "nvidia/cu13/lib").string()};
}

[[maybe_unused]] const bool given = (set_nvrtc_folders(folders), true);

}  // namespace
}  // namespace tile
