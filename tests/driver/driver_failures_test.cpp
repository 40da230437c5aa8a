// Tests failed assertions on a device: when they are reported, and the exact messages.
#include <algorithm>
#include <array>

#include "driver/fake_cuda/driver_test.h"
#include "ir/assertion.h"
#include "support/text.h"

namespace tile {
namespace {

AssertingKernel asserting(std::vector<Assertion> assertions, int cluster = 1, int long_axis = 0) {
  const auto text = [=](size_t assertion, int64_t element, const std::array<int64_t, 3>& block) {
    return failure_text(assertions[assertion], element, block);
  };
  return {assertions.size(), text, cluster, long_axis};
}

class FailureTest : public DriverTest {
 protected:
  // Writes what a kernel's thread would write.
  void fail_at(const FailureLocation& place, std::array<uint32_t, 4> record) {
    std::copy(record.begin(), record.end(), place.record);
    *place.any = 1;
  }
  const Driver driver{library};
  const AssertingKernel gather =
      asserting({{"gather.cpp:12", "index is inside", "gather", {4, 8}}, {"", "", "gather", {}}});
  const std::string here = ", on device 0 (Fake GPU, sm_90)";
};

TEST_F(FailureTest, AreToldByTheNextUseOfTheDevice) {
  driver.use(1);
  fake->calls.clear();
  const FailureLocation place = driver.register_kernel(0, gather),
                        other = driver.register_kernel(0, asserting({{"", "", "sum", {}}}));
  EXPECT_EQ(fake->calls,
            (Calls{"cuDevicePrimaryCtxRetain 0", "cuCtxSetCurrent 100", "cuThreadExchangeStreamCaptureMode 2",
                   "cuMemHostAlloc 65536 3 mode 2", "cuThreadExchangeStreamCaptureMode 0",
                   "cuCtxSetCurrent 101", "cuCtxSetCurrent 100", "cuCtxSetCurrent 101"}));
  EXPECT_EQ(place.any, fake->host_memory);
  EXPECT_EQ(other.any, place.any);
  EXPECT_EQ(place.record, place.any + 4);
  EXPECT_EQ(other.record, place.any + 8);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(place.record) % 16, 0u);
  driver.use(0);
  fail_at(place, {1, 19, 70000, 3 | 2u << 16});
  driver.use(1);  // device 1 has no failure to report
  EXPECT_EQ(error_of([&] { driver.use(0); }),
            "gather.cpp:12: assertion failed: index is inside; element [2,3] of bool[4,8] in block (70000, "
            "3, 2) of kernel gather" +
                here);
  EXPECT_EQ(error_of([&] { driver.use(0); }), "no error");
  fail_at(place, {2, 0, 0, 0});
  fail_at(other, {1, 0, 1, 0});
  fake->calls.clear();
  EXPECT_EQ(error_of([&] { driver.synchronize(0); }),
            "assertion failed; block (0, 0, 0) of kernel gather" + here +
                "\nassertion failed; block (1, 0, 0) of kernel sum" + here);
  EXPECT_EQ(error_of([&] { driver.synchronize(0); }), "no error");
}

TEST_F(FailureTest, TheDeviceIsWaitedForOnce) {
  const FailureLocation place = driver.register_kernel(0, gather);
  fail_at(place, {2, 0, 0, 0});
  driver.use(1);
  fake->calls.clear();
  EXPECT_NE(error_of([&] { driver.use(0); }), "no error");
  EXPECT_EQ(fake->calls, (Calls{"cuCtxSetCurrent 100", "cuCtxSynchronize", "cuCtxSetCurrent 101"}));
}

TEST_F(FailureTest, BlocksAreThoseOfTheGridThatWasAskedFor) {
  const FailureLocation place = driver.register_kernel(0, asserting({{"", "", "wide", {}}}, 4, 2));
  fail_at(place, {1, 0, 4 * 70001 + 1, 5 | 6u << 16});
  EXPECT_EQ(error_of([&] { driver.use(0); }), "assertion failed; block (6, 5, 70001) of kernel wide" + here);
}

TEST_F(FailureTest, AnyNumberOfKernelsIsWatched) {
  std::vector<FailureLocation> places;
  for (int i = 0; i < 5000; ++i)
    places.push_back(driver.register_kernel(0, asserting({{"", "", str("k", i), {}}})));
  EXPECT_EQ(std::count(fake->calls.begin(), fake->calls.end(), "cuMemHostAlloc 65536 3 mode 2"), 2);
  for (const int i : {0, 4094, 4095, 4999}) {
    fail_at(places[static_cast<size_t>(i)], {1, 0, 0, 0});
    EXPECT_EQ(error_of([&] { driver.use(0); }),
              str("assertion failed; block (0, 0, 0) of kernel k", i, here));
  }
  fake->results["cuMemHostAlloc"] = 2;
  EXPECT_EQ(error_of([&] { driver.register_kernel(1, gather); }),
            "memory for failed assertions on device 1 (Small GPU, sm_86): CUDA_ERROR_OUT_OF_MEMORY (meaning "
            "of 2); free memory of the device");
}

TEST_F(FailureTest, UnderCudaLaunchBlockingTheLaunchItselfTells) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  const Driver blocking(library);
  unsetenv("CUDA_LAUNCH_BLOCKING");
  const FailureLocation place = blocking.register_kernel(0, gather);
  fail_at(place, {2, 0, 0, 0});
  int value = 7;
  void* parameters[] = {&value};
  EXPECT_EQ(error_of([&] {
              blocking.launch({reinterpret_cast<void*>(300), "gather", 0}, {}, parameters);
            }),
            "assertion failed; block (0, 0, 0) of kernel gather" + here);
}

TEST_F(FailureTest, AtTheEndOfAProcessStderrHasWhatNobodyWasTold) {
  const auto exits = [](int wait_result) {
    setenv("TILE_CUDA_DRIVER", library, 1);
    GetFakeDriver* get = nullptr;
    Library::open(library).require("fake_driver", get, "build it");
    const FailureLocation place =
        Driver::get().register_kernel(0, asserting({{"late.cpp:3", "it holds", "late", {}}}));
    *place.any = *place.record = 1;
    get()->results["cuCtxSynchronize"] = wait_result;
    std::exit(0);
  };
  const std::string text =
      "^tile: late.cpp:3: assertion failed: it holds; block \\(0, 0, 0\\) of kernel late, on device 0 "
      "\\(Fake GPU, sm_90\\)\n$";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exits(0), ::testing::ExitedWithCode(0), text);
  EXPECT_EXIT(exits(4), ::testing::ExitedWithCode(0), "^$");  // the driver has been shut down
}

}  // namespace
}  // namespace tile
