// Tests several GPUs over a fake driver, which refuses objects of another device than the current context's:
// each device has its own code, streams and failures, whatever device a thread uses.
#include <barrier>
#include <functional>
#include <thread>

#include "runtime/cuda_kernel_test.h"

namespace tile {
namespace {

class DevicesTest : public CudaKernelTest {
 protected:
  DevicesTest() {
    *fake = {.devices = 3, .archs = {90, 80, 90}};
    driver = std::make_unique<Driver>(TILE_FAKE_CUDA);
    set_current_stream([](int device) { return reinterpret_cast<void*>(int64_t{70} + device); });
  }
  // Does the same as run(), in several threads at once.
  void launch(const CudaKernel& kernel, int device) const {
    ArrayArgument from = x, to = y;
    from.device_index = to.device_index = device;
    const ArgumentRef arguments[] = {from, to, i};
    kernel.run({1, 1, 1}, arguments);
  }
  // Returns how often a device's function was launched in its stream, and whether there were other launches.
  std::vector<long> launches() const {
    std::vector<long> counts;
    long all = 0;
    for (int device = 0; device < 3; ++device) {
      counts.push_back(std::count_if(fake->calls.begin(), fake->calls.end(), [&](const std::string& call) {
        return call.starts_with(str("cuLaunchKernelEx ", 300 + device, " ")) &&
               call.find(str(" stream ", 70 + device, " ")) != call.npos;
      }));
      all += counts.back();
    }
    EXPECT_EQ(count("cuLaunchKernelEx"), all);
    return counts;
  }
  // Runs the action in a thread for each device, which is current before and after; returns each thread's
  // error.
  std::vector<std::string> at_once(const std::function<void(int device)>& action) const {
    std::barrier start(3);
    std::vector<std::string> wrong(3);
    std::vector<std::thread> threads;
    for (int device = 0; device < 3; ++device)
      threads.emplace_back([&, device] {
        driver->use(device);
        start.arrive_and_wait();
        wrong[static_cast<size_t>(device)] = error_of([&] { action(device); });
      });
    std::vector<std::thread::id> ids;
    for (std::thread& thread : threads) {
      ids.push_back(thread.get_id());
      thread.join();
    }
    for (int device = 0; device < 3; ++device)
      EXPECT_EQ(fake->current.at(ids[static_cast<size_t>(device)]), reinterpret_cast<void*>(100 + device));
    return wrong;
  }
};
const std::vector<std::string> all_good(3, "no error");

TEST_F(DevicesTest, TheFakeDriverRefusesAnotherDevicesCode) {
  const auto copy = kernel();
  launch(*copy, 1);
  driver->use(0);
  int value = 7;
  void* parameters[] = {&value};
  EXPECT_NE(error_of([&] { driver->launch(copy->on(1).function, {}, parameters); }).find("CUresult 400"),
            std::string::npos);
}

TEST_F(DevicesTest, AThreadForEachDevice) {
  const auto copy = kernel();
  EXPECT_EQ(at_once([&](int device) {
              for (int round = 0; round < 20; ++round) launch(*copy, device);
            }),
            all_good);
  EXPECT_EQ(launches(), (std::vector<long>{20, 20, 20}));
  EXPECT_EQ(nvrtc->compiled, 2);  // for two kinds of chip
  EXPECT_EQ(count("cuModuleLoadData"), 3);
  EXPECT_EQ(copy->on(1).code->target.arch, 80);
}

TEST_F(DevicesTest, ThreadsThatUseAllDevices) {
  const auto copy = kernel(), other = kernel();
  EXPECT_EQ(at_once([&](int own) {
              for (int round = 0; round < 60; ++round) launch(round % 2 ? *copy : *other, (own + round) % 3);
            }),
            all_good);
  EXPECT_EQ(launches(), (std::vector<long>{60, 60, 60}));
  EXPECT_EQ(count("cuModuleLoadData"), 6);
}

TEST_F(DevicesTest, AnAssertionIsToldOfItsDevice) {
  const auto copy = kernel(R"(kernel copy(%x: array<f32,1>, %y: array<f32,1>, %i: i32) {
  %t: f32[4] = load %x, %i {pad=0.0, shape=[4], steps=[4]}
  %ok: bool[4] = eq %t, %t
  assert %ok {message="no NaN"}  // copy.cpp:6
  store %y, %t, %i {steps=[4]}
})");
  launch(*copy, 0);
  launch(*copy, 1);
  const FailureLocation& place = copy->on(1).failures;
  place.record[0] = 1, place.record[1] = 2, place.record[2] = 5;
  *place.any = 1;
  EXPECT_EQ(error_of([&] { launch(*copy, 0); }), "no error");
  EXPECT_EQ(error_of([&] { launch(*copy, 1); }),
            "copy.cpp:6: assertion failed: no NaN; element [2] of bool[4] in block (5, 0, 0) of kernel copy, "
            "on device 1 (Small GPU, sm_80)");
}

TEST_F(DevicesTest, CodeThatDoesNotLoadOnOneDeviceRunsOnTheOthers) {
  const auto copy = kernel();
  launch(*copy, 0);
  fake->results["cuModuleLoadData"] = 2;
  EXPECT_EQ(error_of([&] { launch(*copy, 0); }), "no error");
  EXPECT_NE(error_of([&] {
              launch(*copy, 2);
            }).find("do not load on device 2 (Small GPU, sm_90): CUDA_ERROR_OUT_OF_MEMORY"),
            std::string::npos);
  fake->results.clear();
  EXPECT_EQ(error_of([&] { launch(*copy, 2); }), "no error");
  EXPECT_EQ(launches(), (std::vector<long>{2, 0, 1}));
}

}  // namespace
}  // namespace tile
