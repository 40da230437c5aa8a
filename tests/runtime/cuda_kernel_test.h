// The fixture for tests of kernels on a GPU over a fake driver and a fake NVRTC.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "driver/fake_cuda/fake_driver.h"
#include "driver/fake_cuda/fake_nvrtc.h"
#include "error_text.h"
#include "ir/print.h"
#include "runtime/cuda_kernel.h"

namespace tile {

inline constexpr const char* copy_text = R"(kernel copy(%x: array<f32,1>, %y: array<f32,1>, %i: i32) {
  %t: f32[4] = load %x, %i {pad=0.0, shape=[4], steps=[4]}
  store %y, %t, %i {steps=[4]}
})";

class CudaKernelTest : public ::testing::Test {
 protected:
  CudaKernelTest() {
    const Library library = Library::open(TILE_FAKE_CUDA);
    GetFakeDriver* get_driver = nullptr;
    GetFakeNvrtc* get_nvrtc = nullptr;
    library.require("fake_driver", get_driver, "build it");
    library.require("fake_nvrtc", get_nvrtc, "build it");
    fake = get_driver();
    nvrtc = get_nvrtc();
    *fake = {.archs = {90, 80}};
    *nvrtc = {};
    driver = std::make_unique<Driver>(TILE_FAKE_CUDA);
    for (ArrayArgument* array : {&x, &y}) {
      array->device = DeviceKind::cuda;
      array->rank = 1;
      array->sizes[0] = 12;
      array->strides[0] = 1;
    }
  }
  ~CudaKernelTest() override {
    set_current_stream([](int) -> void* { return nullptr; });
    *fake = {};
    *nvrtc = {};
  }
  std::unique_ptr<CudaKernel> kernel(const std::string& text = copy_text) {
    return std::make_unique<CudaKernel>(parse(text), KernelName{"copy", {"copy.cpp", 3}}, *driver, compiler);
  }
  void run(const CudaKernel& kernel, int device = 0, int64_t blocks = 3) {
    x.device_index = y.device_index = device;
    const ArgumentRef arguments[] = {x, y, i};
    kernel.run({blocks, 1, 1}, arguments);
  }
  long count(const std::string& call) const {
    return std::count_if(fake->calls.begin(), fake->calls.end(),
                         [&](const std::string& made) { return made.starts_with(call + " "); });
  }

  FakeDriver* fake;
  FakeNvrtc* nvrtc;
  std::unique_ptr<Driver> driver;
  const DiskCache none{{.folder = ""}};
  CubinCompiler compiler{none, [] { return NvrtcPaths{.only = TILE_FAKE_CUDA}; }};
  ArrayArgument x, y;
  const ScalarArgument i = scalar_argument(2);
};

}  // namespace tile
