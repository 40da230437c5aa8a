// Tests errors that are reported later than their cause: the kernels that they name, at a launch and under
// CUDA_LAUNCH_BLOCKING.
#include <optional>

#include "driver/fake_cuda/driver_test.h"

namespace tile {
namespace {

TEST_F(DriverTest, ACrashNamesTheKernelsBeforeIt) {
  const Driver driver(library);
  int value = 7;
  void* parameters[] = {&value};
  const auto launch = [&](const char* name, int device = 0) {
    driver.launch({reinterpret_cast<void*>(300), name, device}, {}, parameters);
  };
  for (const char* name : {"first", "softmax.cpp:14: softmax", "add", "add"}) launch(name);
  launch("elsewhere", 1);
  const std::string head =
                        "late: launch of (1, 1, 1) blocks of (1, 1, 1) threads with 0 bytes of shared memory "
                        "on device 0 (Fake GPU, sm_90): ",
                    who =
                        ", by a kernel before this call; the last of ours on device 0, newest first: "
                        "'add', 'softmax.cpp:14: softmax', 'first'; run with CUDA_LAUNCH_BLOCKING=1 to see "
                        "which, and restart the process";
  const std::pair<int, const char*> crashes[] = {
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS (meaning of 700)"},
      {702, "CUresult 702, it ran longer than a GPU with a display allows"},
      {710, "CUDA_ERROR_ASSERT (meaning of 710), stderr has the text of its assert"},
      {714, "CUresult 714"},
      {715, "CUresult 715"},
      {716, "CUresult 716, it accessed an address that is not a multiple of the access size"},
      {717, "CUresult 717"},
      {718, "CUresult 718"},
      {719, "CUDA_ERROR_LAUNCH_FAILED (meaning of 719)"}};
  for (const auto& [code, fact] : crashes) {
    fake->results["cuLaunchKernelEx"] = code;
    EXPECT_EQ(error_of([&] { launch("late"); }), head + fact + who);
  }
  // A call that is not for a device names the kernels of all devices.
  fake->results = {{"cuStreamIsCapturing", 719}};
  EXPECT_EQ(error_of([&] { driver.capture_status(nullptr); }),
            "the capture status of a stream: CUDA_ERROR_LAUNCH_FAILED (meaning of 719), by a kernel before "
            "this call; the last of ours on device 0, newest first: 'add', 'softmax.cpp:14: softmax', "
            "'first'; the last of ours on device 1, newest first: 'elsewhere'; run with "
            "CUDA_LAUNCH_BLOCKING=1 to see which, and restart the process");
  fake->results = {{"cuCtxSynchronize", 700}};
  EXPECT_EQ(error_of([&] { driver.synchronize(0); }),
            "waiting for device 0 (Fake GPU, sm_90): CUDA_ERROR_ILLEGAL_ADDRESS (meaning of 700)" + who);
}

class BlockingTest : public DriverTest {
 protected:
  BlockingTest() {
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    driver.emplace(library);
    unsetenv("CUDA_LAUNCH_BLOCKING");
  }
  void launch(const char* name) {
    int value = 7;
    void* parameters[] = {&value};
    driver->launch({reinterpret_cast<void*>(300), name, 0}, {.stream = reinterpret_cast<void*>(77)},
                   parameters);
  }
  static std::string text(const std::string& name, const std::string& rest) {
    return name +
           ": launch of (1, 1, 1) blocks of (1, 1, 1) threads with 0 bytes of shared memory on device 0 "
           "(Fake GPU, sm_90): " +
           rest;
  }
  std::optional<Driver> driver;
};

TEST_F(BlockingTest, WaitsForEachLaunch) {
  launch("copy");
  const std::string call =
      "cuLaunchKernelEx 300 grid 1 1 1 block 1 1 1 shared 0 stream 77 first 7 extra 0 attributes";
  EXPECT_EQ(fake->calls, (Calls{"cuStreamSynchronize 77", call, "cuStreamSynchronize 77"}));
  fake->calls.clear();
  fake->capturing = 1;  // a captured stream must not be waited for
  launch("copy");
  EXPECT_EQ(fake->calls, (Calls{call}));
}

TEST_F(BlockingTest, TheErrorNamesTheKernelThatDidIt) {
  launch("copy");
  fake->results["cuStreamSynchronize"] = 700;
  fake->waits_until_failure = 2;
  EXPECT_EQ(error_of([&] { launch("wild"); }),
            text("wild", "CUDA_ERROR_ILLEGAL_ADDRESS (meaning of 700), by this kernel; restart the process"));
  EXPECT_EQ(error_of([&] { launch("copy"); }),
            text("copy",
                 "CUDA_ERROR_ILLEGAL_ADDRESS (meaning of 700), by 'wild' before this call; restart the "
                 "process"));
}

TEST_F(BlockingTest, ADriverThatWaitsItselfSaysTheSame) {
  fake->results["cuLaunchKernelEx"] = 710;
  EXPECT_EQ(error_of([&] { launch("wild"); }),
            text("wild",
                 "CUDA_ERROR_ASSERT (meaning of 710), stderr has the text of its assert, by this kernel; "
                 "restart the process"));
}

TEST_F(BlockingTest, WhatOthersDidIsNotOurs) {
  launch("copy");
  fake->results["cuStreamSynchronize"] = 719;
  EXPECT_EQ(error_of([&] { launch("copy"); }),
            text("copy",
                 "CUDA_ERROR_LAUNCH_FAILED (meaning of 719), by a kernel before this call, none of ours; "
                 "restart the process"));
  fake->results = {{"cuLaunchKernelEx", 701}};
  EXPECT_EQ(error_of([&] { launch("copy"); }),
            text("copy",
                 "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (meaning of 701); a block needs more registers or "
                 "shared memory than there are: use smaller tiles"));
}

TEST_F(BlockingTest, OnlyANumberOtherThan0Asks) {
  for (const char* value : {"0", "", "no"}) {
    setenv("CUDA_LAUNCH_BLOCKING", value, 1);
    driver.emplace(library);
    unsetenv("CUDA_LAUNCH_BLOCKING");
    fake->calls.clear();
    launch("copy");
    EXPECT_EQ(fake->calls.size(), 1u) << value;
  }
}

TEST_F(DriverTest, ClusterErrorsNameTheKernel) {
  const Driver driver(library);
  const CudaFunction function{reinterpret_cast<void*>(300), "wide", 0};
  fake->results = {{"cuFuncSetAttribute", 1}};
  EXPECT_EQ(error_of([&] { driver.allow_large_clusters(function); }),
            "wide: clusters of more than 8 blocks on device 0 (Fake GPU, sm_90): CUDA_ERROR_INVALID_VALUE "
            "(meaning of 1)");
  const CudaLaunch launch{.cluster = {16, 1, 1}};
  fake->results = {{"cuOccupancyMaxActiveClusters", 912}};
  EXPECT_EQ(driver.clusters_at_once(function, launch), 0);
  fake->results = {{"cuOccupancyMaxActiveClusters", 719}};
  EXPECT_EQ(error_of([&] { driver.clusters_at_once(function, launch); }),
            "wide: how many clusters of (16, 1, 1) blocks device 0 (Fake GPU, sm_90) holds: "
            "CUDA_ERROR_LAUNCH_FAILED (meaning of 719), by a kernel before this call, none of ours; run with "
            "CUDA_LAUNCH_BLOCKING=1 to see which, and restart the process");
  int value = 7;
  void* parameters[] = {&value};
  fake->results = {{"cuLaunchKernelEx", 912}};
  EXPECT_EQ(error_of([&] { driver.launch(function, launch, parameters); }),
            "wide: launch of (1, 1, 1) blocks of (1, 1, 1) threads in clusters of (16, 1, 1) with 0 bytes of "
            "shared memory on device 0 (Fake GPU, sm_90): CUresult 912; use a smaller cluster");
}

}  // namespace
}  // namespace tile
