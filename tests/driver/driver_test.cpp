// Tests the CUDA driver's wrapper over a fake driver: its calls, and the exact text of every error.
#include "driver/driver.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "driver/fake_cuda/driver_test.h"

namespace tile {
namespace {

TEST_F(DriverTest, ListsDevices) {
  const Driver driver(library);
  EXPECT_EQ(driver.version(), 13000);
  ASSERT_EQ(driver.device_count(), 2);
  const DeviceProperties& p = driver.properties(0);
  EXPECT_EQ(p.name, "Fake GPU");
  EXPECT_EQ(p.arch, 90);
  EXPECT_EQ(p.multiprocessors, 132);
  EXPECT_EQ(p.max_threads, 1024);
  EXPECT_EQ(p.shared_bytes, 232448);
  EXPECT_EQ(p.multiprocessor_shared_bytes, 233472);
  EXPECT_EQ(p.l2_bytes, 1 << 20);
  EXPECT_EQ(driver.properties(1).arch, 86);
  EXPECT_EQ(error_of([&] { driver.properties(2); }), "there is no CUDA device 2; this process has 2");
  EXPECT_EQ(error_of([&] { driver.use(-1); }), "there is no CUDA device -1; this process has 2");
}

TEST_F(DriverTest, SaysWhyItCannotBeUsed) {
  EXPECT_EQ(
      error_of([] { Driver driver("libno_such_driver.so.1"); }),
      "no NVIDIA driver: libno_such_driver.so.1: cannot open shared object file: No such file or directory; "
      "install the NVIDIA driver 545 or newer");
  const std::string other = Library::open("libc.so.6").path();
  EXPECT_EQ(error_of([&] { Driver driver(other); }),
            other + " has no function cuDriverGetVersion; update the NVIDIA driver to 545 or newer");
  fake->version = 12020;
  EXPECT_EQ(open_error(),
            "the NVIDIA driver serves CUDA 12.2, and CUDA 12.3 or newer is needed; update the NVIDIA driver "
            "to 545 or "
            "newer");
  *fake = {.missing = "cuLaunchKernelEx"};
  EXPECT_EQ(open_error(), std::string(library) +
                              " has no function cuLaunchKernelEx; update the NVIDIA driver to 545 or newer");
  *fake = {.results = {{"cuInit", 100}}};
  EXPECT_EQ(open_error(),
            "the NVIDIA driver does not start: CUDA_ERROR_NO_DEVICE (meaning of 100); look at nvidia-smi and "
            "CUDA_VISIBLE_DEVICES");
  *fake = {.results = {{"cuDriverGetVersion", 34}}};
  EXPECT_EQ(open_error(),
            "the NVIDIA driver does not tell its version: CUDA_ERROR_STUB_LIBRARY (meaning of 34); the "
            "library is a "
            "toolkit's stub: take its folder out of LD_LIBRARY_PATH");
  *fake = {.results = {{"cuDeviceGetAttribute", 4321}}};
  EXPECT_EQ(open_error(), "attribute 75 of device 0: CUresult 4321");
}

TEST_F(DriverTest, TheVariableNamesTheLibrary) {
  const auto good = [] {
    setenv("TILE_CUDA_DRIVER", "libno_such_driver.so.1", 1);
    const std::string error = error_of([] { Driver::get(); });
    setenv("TILE_CUDA_DRIVER", library, 1);  // a failure is not cached
    return error.starts_with("no NVIDIA driver: libno_such_driver.so.1: ") &&
           Driver::get().properties(0).name == "Fake GPU" && &Driver::get() == &Driver::get();
  };
  // In a child process, because a process opens its driver once.
  const pid_t child = fork();
  if (child == 0) _exit(good() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(DriverTest, ContextIsRetainedOnceAndSetForEachThread) {
  const Driver driver(library);
  driver.use(1);
  driver.use(1);
  EXPECT_EQ(fake->calls, (Calls{"cuDevicePrimaryCtxRetain 1", "cuCtxSetCurrent 101"}));
  std::thread([&] { driver.use(1); }).join();
  EXPECT_EQ(fake->calls.back(), "cuCtxSetCurrent 101");
  EXPECT_EQ(fake->calls.size(), 3u);
  fake->results["cuDevicePrimaryCtxRetain"] = 2;
  const std::string error =
      "no context on device 0 (Fake GPU, sm_90): CUDA_ERROR_OUT_OF_MEMORY (meaning of 2); free memory of the "
      "device";
  EXPECT_EQ(error_of([&] { driver.use(0); }), error);
  fake->results.clear();
  driver.use(0);
  EXPECT_EQ(fake->calls.back(), "cuCtxSetCurrent 100");
}

TEST_F(DriverTest, LoadsOnAnotherDeviceWithoutChangingTheThreads) {
  const Driver driver(library);
  driver.use(0);
  fake->calls.clear();
  const CudaModule module = driver.load(1, "code", "saxpy");
  EXPECT_EQ(fake->calls, (Calls{"cuDevicePrimaryCtxRetain 1", "cuCtxSetCurrent 101",
                                "cuThreadExchangeStreamCaptureMode 2", "cuModuleLoadData code mode 2",
                                "cuThreadExchangeStreamCaptureMode 0", "cuCtxSetCurrent 100"}));
  fake->calls.clear();
  const CudaFunction function = driver.function(module, "_Z5saxpy");
  driver.allow_shared_memory(function, 100000);
  driver.unload(module);
  EXPECT_EQ(fake->calls,
            (Calls{"cuCtxSetCurrent 101", "cuModuleGetFunction 201 _Z5saxpy", "cuCtxSetCurrent 100",
                   "cuCtxSetCurrent 101", "cuFuncSetAttribute 301 8 100000", "cuCtxSetCurrent 100",
                   "cuCtxSetCurrent 101", "cuModuleUnload 201", "cuCtxSetCurrent 100"}));
  const FunctionAttributes attributes = driver.attributes(function);
  EXPECT_EQ(attributes.registers, 40);
  EXPECT_EQ(attributes.local_bytes, 16);
  EXPECT_EQ(attributes.shared_bytes, 2048);
  EXPECT_EQ(attributes.max_threads, 512);
}

TEST_F(DriverTest, LoadErrorsNameTheKernel) {
  const Driver driver(library);
  fake->results["cuModuleLoadData"] = 209;
  EXPECT_EQ(
      error_of([&] { driver.load(0, "code", "saxpy"); }),
      "saxpy: its 4 bytes of code do not load on device 0 (Fake GPU, sm_90): CUDA_ERROR_NO_BINARY_FOR_GPU "
      "(meaning of 209); NVRTC may be newer than the driver: update the driver");
  fake->results = {{"cuModuleGetFunction", 500}, {"cuFuncSetAttribute", 1}, {"cuFuncGetAttribute", 3}};
  const CudaModule module = driver.load(0, "code", "saxpy");
  EXPECT_EQ(error_of([&] { driver.function(module, "nothing"); }),
            "saxpy: its code has no function nothing: CUDA_ERROR_NOT_FOUND (meaning of 500)");
  const CudaFunction function{reinterpret_cast<void*>(301), "saxpy", 1};
  EXPECT_EQ(error_of([&] { driver.allow_shared_memory(function, 300000); }),
            "saxpy: a block cannot have 300000 bytes of shared memory; device 1 (Small GPU, sm_86) has "
            "232448 for it: "
            "CUDA_ERROR_INVALID_VALUE (meaning of 1)");
  EXPECT_EQ(
      error_of([&] { driver.attributes(function); }),
      "saxpy: no attribute 4: CUDA_ERROR_NOT_INITIALIZED (meaning of 3); where this process was forked after "
      "CUDA was used: start processes with the method spawn");
}

TEST_F(DriverTest, Launches) {
  const Driver driver(library);
  const CudaFunction function{reinterpret_cast<void*>(300), "saxpy", 0};
  int value = 7;
  void* parameters[] = {&value};
  driver.launch(function, {.grid = {5, 2, 1}, .block = {128, 1, 1}}, parameters);
  driver.launch(function,
                {.grid = {4, 1, 1},
                 .block = {64, 2, 1},
                 .cluster = {2, 1, 1},
                 .shared_bytes = 1024,
                 .stream = reinterpret_cast<void*>(77),
                 .programmatic = true},
                parameters);
  driver.launch(function, {.programmatic = true}, parameters);
  const std::string launch = "cuLaunchKernelEx 300 grid ";
  EXPECT_EQ(fake->calls,
            (Calls{launch + "5 2 1 block 128 1 1 shared 0 stream 0 first 7 extra 0 attributes",
                   launch + "4 1 1 block 64 2 1 shared 1024 stream 77 first 7 extra 0 attributes 4:2 1 1 6:1",
                   launch + "1 1 1 block 1 1 1 shared 0 stream 0 first 7 extra 0 attributes 6:1"}));
}

TEST_F(DriverTest, LaunchErrorsNameTheKernel) {
  const Driver driver(library);
  const CudaFunction function{reinterpret_cast<void*>(300), "saxpy", 0};
  int value = 7;
  void* parameters[] = {&value};
  const auto error = [&](int code, const CudaLaunch& launch) {
    fake->results["cuLaunchKernelEx"] = code;
    return error_of([&] { driver.launch(function, launch, parameters); });
  };
  const std::string where = " bytes of shared memory on device 0 (Fake GPU, sm_90): ";
  EXPECT_EQ(error(1, {.grid = {1, 70000, 1}, .block = {2048, 1, 1}}),
            "saxpy: launch of (1, 70000, 1) blocks of (2048, 1, 1) threads with 0" + where +
                "CUDA_ERROR_INVALID_VALUE (meaning of 1)");
  EXPECT_EQ(error(701, {.cluster = {2, 1, 1}, .shared_bytes = 512}),
            "saxpy: launch of (1, 1, 1) blocks of (1, 1, 1) threads in clusters of (2, 1, 1) with 512" +
                where +
                "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (meaning of 701); a block needs more registers or shared "
                "memory "
                "than there are: use smaller tiles");
  EXPECT_EQ(
      error(700, {}),
      "saxpy: launch of (1, 1, 1) blocks of (1, 1, 1) threads with 0" + where +
          "CUDA_ERROR_ILLEGAL_ADDRESS (meaning of 700), by a kernel before this call, none of ours; run "
          "with CUDA_LAUNCH_BLOCKING=1 to see which, and restart the process");
}

TEST_F(DriverTest, CaptureStatus) {
  const Driver driver(library);
  for (const CaptureStatus status :
       {CaptureStatus::none, CaptureStatus::active, CaptureStatus::invalidated}) {
    fake->capturing = static_cast<int>(status);
    EXPECT_EQ(driver.capture_status(nullptr), status);
  }
  fake->results["cuStreamIsCapturing"] = 906;
  EXPECT_EQ(error_of([&] { driver.capture_status(nullptr); }),
            "the capture status of a stream: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (meaning of 906); run the "
            "kernel once "
            "before the capture");
}

TEST_F(DriverTest, AForkedProcessIsTold) {
  const Driver driver(library);
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = error_of([&] { driver.use(0); });
    const bool own = error_of([] { Driver(library).use(0); }) == "no error";
    _exit(own && text ==
                      "CUDA does not work in a process that was forked after CUDA was used; start processes "
                      "with the method spawn"
              ? 0
              : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tile
