// Tests over a fake driver which counter a launch draws blocks from.
#include "runtime/block_counters.h"

#include <cstring>
#include <set>
#include <thread>

#include "dense_arrays.h"
#include "runtime/cuda_kernel_test.h"

namespace tile {
namespace {

// The blocks of row i have i + 1 products.
constexpr const char* triangle = R"(kernel triangle(%a: array<bf16,2>, %b: array<bf16,2>) {
  %i: i32 = bid {axis=0}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %t: i32 = add %i, %1
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[128,128] = broadcast %z {shape=[128,128]}
  %r: f32[128,128] = for %0, %t, %1, %zs (%k: i32, %acc: f32[128,128]) {
    %x: bf16[128,128] = load %a, %i, %k {pad=0.0, shape=[128,128], steps=[128,128]}
    %m: f32[128,128] = mma %x, %x, %acc
    yield %m
  }
  %o: bf16[128,128] = astype %r {dtype=bf16}
  store %b, %o, %i, %0 {steps=[128,128]}
})";

void* stream = nullptr;

class BlockCountersTest : public CudaKernelTest {
 protected:
  BlockCountersTest() {
    set_current_stream([](int) { return stream; });
    Function function = parse(triangle);
    make_dense(function, 2);
    kernel = std::make_unique<CudaKernel>(std::move(function), KernelName{"triangle", {"triangle.cpp", 3}},
                                          *driver, compiler);
    for (ArrayArgument* array : {&x, &y}) {
      array->data = reinterpret_cast<void*>(4096);
      array->dtype = DType::bf16;
      array->rank = 2;
      array->sizes[0] = array->sizes[1] = 128 * blocks;
      array->strides[0] = 128 * blocks, array->strides[1] = 1;
    }
    for (const cuda::Parameter& parameter : kernel->on(0).code->program.parameters) {
      if (parameter.kind == cuda::ParameterKind::block_counter) counter = fake->parameter_bytes.size();
      fake->parameter_bytes.push_back(parameter.kind == cuda::ParameterKind::argument ? 32 : 4);
    }
  }
  // Launches it in the stream of this number, and returns the number of its counter.
  uint32_t counter_of(int64_t number) {
    stream = reinterpret_cast<void*>(number);
    const ArgumentRef arguments[] = {x, y};
    kernel->run({blocks, 1, 1}, arguments);
    uint32_t given;
    std::memcpy(&given, fake->parameters.at(counter).data(), sizeof given);
    return given;
  }

  static constexpr int64_t blocks = 300;
  std::unique_ptr<CudaKernel> kernel;
  size_t counter = 0;
};

TEST_F(BlockCountersTest, CodeHasSoMany) {
  const auto& library = cuda::device_library();
  const auto file = std::find_if(library.begin(), library.end(), [](const auto& each) {
    return each.first == "cuda/device/block_counters.cuh";
  });
  ASSERT_NE(file, library.end());
  EXPECT_NE(file->second.find(str("block_counters[", BlockCounters::count, "];")), std::string::npos);
}

TEST_F(BlockCountersTest, LaunchesOfAStreamShareOne) {
  EXPECT_TRUE(kernel->on(0).code->program.draws);
  EXPECT_EQ(counter_of(70), 0);
  EXPECT_NE(fake->calls.back().find(" grid 132 1 1 "), std::string::npos) << fake->calls.back();
  EXPECT_EQ(counter_of(71), 1);
  EXPECT_EQ(counter_of(0), 2);  // the default stream
  EXPECT_EQ(counter_of(70), 0);
  EXPECT_EQ(counter_of(0), 2);
}

// Graphs may be launched at the same time, and as long as the process runs.
TEST_F(BlockCountersTest, ACapturedLaunchHasOneForItself) {
  EXPECT_EQ(counter_of(70), 0);
  fake->capturing = 1;
  EXPECT_EQ(counter_of(70), 1);
  EXPECT_EQ(counter_of(70), 2);
  fake->capturing = 0;
  EXPECT_EQ(counter_of(70), 0);
}

TEST_F(BlockCountersTest, MoreAreThoseOfAnotherCopyOfTheCode) {
  EXPECT_EQ(counter_of(70), 0);
  fake->capturing = 1;
  for (uint32_t i = 1; i < BlockCounters::count; ++i) ASSERT_EQ(counter_of(70), i);
  EXPECT_EQ(count("cuModuleLoadData"), 1);
  fake->calls.clear();
  EXPECT_EQ(counter_of(70), 0);
  EXPECT_EQ(count("cuModuleLoadData"), 1);
  EXPECT_EQ(counter_of(70), 1);
  fake->capturing = 0;
  EXPECT_EQ(counter_of(70), 0);
  EXPECT_EQ(count("cuModuleLoadData"), 1);
}

TEST_F(BlockCountersTest, ThreadsThatLaunchAtOnceAgree) {
  BlockCounters counters{CudaFunction{}};
  constexpr uint32_t streams = 50;
  std::array<std::set<uint32_t>, streams> given;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (uint32_t at = 0; at < streams; ++at) {
        const uint32_t own = counters.of(at, [] { return CudaFunction{}; }).counter;
        const std::lock_guard lock(mutex);
        given[at].insert(own);
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::set<uint32_t> all;
  for (const std::set<uint32_t>& of_stream : given) {
    EXPECT_EQ(of_stream.size(), 1U);
    all.insert(of_stream.begin(), of_stream.end());
  }
  EXPECT_EQ(all.size(), streams);
}

// While another stream is captured, the status of the default stream is an error, and so is a launch there.
TEST_F(BlockCountersTest, AnErrorIsThatOfTheLaunch) {
  fake->results = {{"cuStreamIsCapturing", 906}, {"cuLaunchKernelEx", 906}};
  const std::string error = error_of([&] { counter_of(0); });
  EXPECT_TRUE(error.starts_with("triangle.cpp:3: triangle: launch of (132, 1, 1) blocks")) << error;
}

}  // namespace
}  // namespace tile
