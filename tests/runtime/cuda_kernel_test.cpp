// Tests kernels on a GPU over a fake driver and a fake NVRTC: when they are compiled and loaded, the
// parameters of a launch, and exact texts of errors.
#include "runtime/cuda_kernel_test.h"

#include <algorithm>
#include <barrier>
#include <cstring>
#include <thread>

namespace tile {
namespace {

TEST_F(CudaKernelTest, LaunchesInTheStreamOfTheDevice) {
  const auto copy = kernel();
  EXPECT_EQ(nvrtc->compiled, 0);
  set_current_stream([](int device) { return reinterpret_cast<void*>(int64_t{70} + device); });
  fake->parameter_bytes = {24, 24, 4};
  run(*copy, 1);
  const cuda::Program& program = copy->on(1).code->program;
  EXPECT_EQ(fake->calls.back(), str("cuLaunchKernelEx 301 grid 3 1 1 block ", program.threads, " 1 1 shared ",
                                    program.shared_bytes, " stream 71 first 0 extra 0 attributes"));
  const auto word = [](const std::string& bytes) {
    int32_t value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  };
  EXPECT_EQ(word(fake->parameters.at(2)), 2);
  EXPECT_EQ(word(fake->parameters.at(1).substr(16)), 12);
}

TEST_F(CudaKernelTest, IsCompiledOnceAArchAndLoadedOnceADevice) {
  *fake = {.devices = 3, .archs = {90, 80, 90}};
  driver = std::make_unique<Driver>(TILE_FAKE_CUDA);
  const auto copy = kernel();
  for (int round = 0; round < 3; ++round)
    for (int device = 0; device < 3; ++device) run(*copy, device);
  EXPECT_EQ(nvrtc->compiled, 2);
  EXPECT_EQ(count("cuModuleLoadData"), 3);
  EXPECT_EQ(count("cuModuleGetFunction"), 3);
  EXPECT_EQ(count("cuLaunchKernelEx"), 9);
  EXPECT_EQ(copy->on(0).attributes.local_bytes, 16);
  EXPECT_EQ(copy->on(0).code, copy->on(2).code);
}

TEST_F(CudaKernelTest, AGridMayBeLongAlongAnyAxis) {
  const auto copy = kernel(R"(kernel copy(%x: array<f32,1>, %y: array<f32,1>, %i: i32) {
  %a: i32 = bid {axis=0}
  %b: i32 = bid {axis=1}
  %c: i32 = bid {axis=2}
  %n: i32 = num_blocks {axis=1}
  %s: i32 = add %a, %b
  %u: i32 = add %s, %c
  %v: i32 = add %u, %n
  %t: f32[4] = load %x, %v {pad=0.0, shape=[4], steps=[4]}
  store %y, %t, %v {steps=[4]}
})");
  const ArgumentRef arguments[] = {x, y, i};
  const auto grid_of = [&](Blocks blocks) {
    copy->run(blocks, arguments);
    const std::string& call = fake->calls.back();
    return call.substr(0, call.find(" block"));
  };
  const auto places = [&](int axis) {
    const std::string& text = copy->on(0, axis).code->program.source;
    std::string found;
    for (size_t at = text.find("= bid<") - 1; (at = text.find(">()", at)) != text.npos; ++at)
      found += text[at - 1];
    return found;
  };
  const std::string launch = "cuLaunchKernelEx 300 grid ";
  EXPECT_EQ(grid_of({70000, 65535, 65535}), launch + "70000 65535 65535");
  EXPECT_EQ(grid_of({3, 70000, 2}), launch + "70000 3 2");
  EXPECT_EQ(grid_of({3, 2, 2147483647}), launch + "2147483647 2 3");
  EXPECT_EQ(places(0), "0121");
  EXPECT_EQ(places(1), "1020");
  EXPECT_EQ(places(2), "2101");
  EXPECT_EQ(nvrtc->compiled, 3);
}

constexpr const char* large_text = R"(kernel copy(%x: array<f32,1>, %y: array<f32,1>, %i: i32) {
  %t: f32[262144] = load %x, %i {pad=0.0, shape=[262144], steps=[262144]}
  store %y, %t, %i {steps=[262144]}
})";

TEST_F(CudaKernelTest, ALargeTileIsLaunchedInClusters) {
  const auto copy = kernel(large_text);
  run(*copy);
  const cuda::Program& program = copy->on(0).code->program;
  EXPECT_EQ(program.cluster, 16);
  EXPECT_EQ(std::count(fake->calls.begin(), fake->calls.end(), "cuFuncSetAttribute 300 14 1"), 1);
  EXPECT_EQ(fake->calls.back(), str("cuLaunchKernelEx 300 grid 48 1 1 block ", program.threads,
                                    " 1 1 shared 0 stream 0 first 0 extra 0 attributes 4:16 1 1 6:1"));
  run(*copy, 1);
  EXPECT_EQ(copy->on(1).code->program.cluster, 1);  // sm_80
  EXPECT_EQ(fake->calls.back().find("4:"), std::string::npos);
  EXPECT_EQ(
      error_of([&] { run(*copy, 0, 200000000); }),
      "copy.cpp:3: launch of copy: the grid is (200000000, 1, 1), each of its blocks a cluster of 16; on a "
      "GPU these are at most 2147483647 along an axis, launch fewer");
}

TEST_F(CudaKernelTest, ADeviceWithoutRoomForAClusterGetsSmallerOnes) {
  fake->cluster_blocks = 4;
  const auto copy = kernel(large_text);
  run(*copy);
  EXPECT_EQ(copy->on(0).code->program.cluster, 4);
  EXPECT_EQ(count("cuModuleUnload"), 2);
  EXPECT_EQ(fake->calls.back().substr(fake->calls.back().find("attributes")), "attributes 4:4 1 1 6:1");
}

TEST_F(CudaKernelTest, BeginsWhileTheKernelBeforeItEnds) {
  const auto copy = kernel();
  const auto attributes = [&](int device, int blocks) {
    run(*copy, device, blocks);
    const auto launch = std::find_if(fake->calls.rbegin(), fake->calls.rend(),
                                     [](const std::string& call) { return call.starts_with("cuLaunch"); });
    return launch->substr(launch->find("attributes"));
  };
  const auto said = [&] { return fake->parameters.at(3) == std::string("\1\0\0\0", 4); };
  fake->parameter_bytes = {24, 24, 4, 4};
  for (const int blocks : {1, 100000}) {
    EXPECT_EQ(attributes(0, blocks), "attributes 6:1");
    EXPECT_TRUE(said());
  }
  EXPECT_EQ(attributes(1, 1), "attributes");  // sm_80
}

TEST_F(CudaKernelTest, LaunchesTheConfigurationThatDoesNotSpill) {
  nvrtc->log = "Compiling entry function 'kernel_copy'\n 400 bytes spill stores, 400 bytes spill loads";
  nvrtc->logs = {{"TILE_KERNEL(64, 1) ", ""}};
  run(*kernel());
  EXPECT_NE(fake->calls.back().find(" block 64 1 1 "), std::string::npos) << fake->calls.back();
}

TEST_F(CudaKernelTest, SeveralThreadsCompileOnce) {
  const auto copy = kernel();
  std::barrier start(4);
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&] {
      const ArgumentRef arguments[] = {x, y, i};
      start.arrive_and_wait();
      copy->run({1, 1, 1}, arguments);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(nvrtc->compiled, 1);
  EXPECT_EQ(count("cuModuleLoadData"), 1);
  EXPECT_EQ(count("cuLaunchKernelEx"), 4);
}

TEST_F(CudaKernelTest, LoadsCodeWhileAStreamIsCaptured) {
  run(*kernel());
  const auto load = std::find_if(fake->calls.begin(), fake->calls.end(), [](const std::string& call) {
    return call.starts_with("cuModuleLoadData ");
  });
  ASSERT_NE(load, fake->calls.end());
  EXPECT_TRUE(load->ends_with(" mode 2")) << *load;
  // Later calls may load, too, because code is loaded lazily.
  const auto last = [&](const char* name) {
    return std::find_if(fake->calls.rbegin(), fake->calls.rend(),
                        [&](const std::string& call) { return call.starts_with(name); });
  };
  EXPECT_EQ(*last("cuThreadExchangeStreamCaptureMode "), "cuThreadExchangeStreamCaptureMode 0");
  EXPECT_LT(last("cuThreadExchangeStreamCaptureMode 0"), last("cuModuleGetFunction "));
}

TEST_F(CudaKernelTest, AsksForMoreSharedMemoryThanABlockHasUnasked) {
  const auto product = kernel(R"(kernel copy(%x: array<f32,1>, %y: array<f32,1>, %i: i32) {
  %one: f32 = constant {dtype=f32, value=1.0}
  %a: f32[128,64] = broadcast %one {shape=[128,64]}
  %b: f32[64,128] = broadcast %one {shape=[64,128]}
  %c: f32[128,128] = broadcast %one {shape=[128,128]}
  %d: f32[128,128] = mma %a, %b, %c
  %e: f32[128] = reduce_max %d {axes=[0]}
  store %y, %e, %i {steps=[128]}
})");
  run(*product);
  const int bytes = product->on(0).code->program.shared_bytes;
  ASSERT_GT(bytes, 48 * 1024);
  EXPECT_EQ(std::count(fake->calls.begin(), fake->calls.end(), str("cuFuncSetAttribute 300 8 ", bytes)), 1);
  const auto copy = kernel();
  fake->calls.clear();
  run(*copy);
  EXPECT_EQ(count("cuFuncSetAttribute"), 0);
}

TEST_F(CudaKernelTest, TheThreadKeepsItsDevice) {
  const auto copy = kernel();
  driver->use(0);
  run(*copy, 1);
  EXPECT_EQ(fake->calls.back(), "cuCtxSetCurrent 100");
  run(*copy, 0);
  const size_t before = fake->calls.size();
  run(*copy, 0);
  EXPECT_EQ(fake->calls.size(), before + 1);  // a warm launch on the thread's device is one call
}

TEST_F(CudaKernelTest, AFailureIsNotKept) {
  const auto copy = kernel();
  nvrtc->code = 6;
  EXPECT_EQ(
      error_of([&] { run(*copy); }),
      "copy.cu: CUDA C++ does not compile for sm_90a: NVRTC_ERROR_OF_THE_FAKE; the log of NVRTC 13.0:\n");
  nvrtc->code = 0;
  fake->results["cuModuleGetFunction"] = 500;
  const std::string error = error_of([&] { run(*copy); });
  fake->results.clear();
  EXPECT_EQ(error_of([&] { run(*copy); }), "no error");
  EXPECT_EQ(error, "copy.cpp:3: copy: its code has no function " + copy->on(0).code->program.entry +
                       ": CUDA_ERROR_NOT_FOUND (meaning of 500)");
  EXPECT_EQ(nvrtc->compiled, 2);  // the good cubin was kept
}

TEST_F(CudaKernelTest, ErrorsNameTheKernel) {
  const auto copy = kernel();
  EXPECT_EQ(error_of([&] { run(*copy, 2); }), "there is no CUDA device 2; this process has 2");
  fake->results["cuModuleLoadData"] = 2;
  const std::string error = error_of([&] { run(*copy); });
  EXPECT_TRUE(error.starts_with("copy.cpp:3: copy: its ")) << error;
  EXPECT_TRUE(
      error.ends_with(" bytes of code do not load on device 0 (Fake GPU, sm_90): "
                      "CUDA_ERROR_OUT_OF_MEMORY (meaning of 2); free memory of the device"))
      << error;
  fake->results = {{"cuLaunchKernelEx", 700}};
  const std::string crash = error_of([&] { run(*copy); });
  EXPECT_TRUE(crash.starts_with("copy.cpp:3: copy: launch of (3, 1, 1) blocks of (")) << crash;
  EXPECT_TRUE(
      crash.ends_with(" on device 0 (Fake GPU, sm_90): CUDA_ERROR_ILLEGAL_ADDRESS (meaning of 700), by a "
                      "kernel before this call, none of ours; run with CUDA_LAUNCH_BLOCKING=1 to see "
                      "which, and restart the process"))
      << crash;
  fake->results.clear();
  run(*copy);
  fake->results = {{"cuLaunchKernelEx", 700}};
  const std::string later = error_of([&] { run(*copy); });
  EXPECT_TRUE(
      later.ends_with("; the last of ours on device 0, newest first: 'copy.cpp:3: copy'; run with "
                      "CUDA_LAUNCH_BLOCKING=1 to see which, and restart the process"))
      << later;
}

TEST_F(CudaKernelTest, ANameOutlivesItsKernel) {
  run(*kernel());
  const auto other = kernel();
  fake->results = {{"cuLaunchKernelEx", 700}};
  const std::string crash = error_of([&] { run(*other); });
  EXPECT_NE(crash.find("newest first: 'copy.cpp:3: copy';"), std::string::npos) << crash;
}

constexpr const char* asserting_text = R"(kernel copy(%x: array<f32,1>, %y: array<f32,1>, %i: i32) {
  %t: f32[4] = load %x, %i {pad=0.0, shape=[4], steps=[4]}
  %ok: bool[4] = eq %t, %t  // copy.cpp:5
  assert %ok {message="no NaN"}  // copy.cpp:6
  store %y, %t, %i {steps=[4]}
})";

TEST_F(CudaKernelTest, AKernelThatAssertsIsGivenAPlaceToSayWhatFailed) {
  const auto copy = kernel(asserting_text), other = kernel();
  fake->parameter_bytes = {24, 24, 4, sizeof(FailureLocation), 4};
  run(*copy);
  const FailureLocation& place = copy->on(0).failures;
  EXPECT_EQ(fake->parameters.at(3), std::string(reinterpret_cast<const char*>(&place), sizeof place));
  EXPECT_EQ(fake->parameters.at(4), std::string("\1\0\0\0", 4));
  fake->parameter_bytes = {24, 24, 4, 4};  // of the other kernel
  EXPECT_EQ(place.any, fake->host_memory);
  place.record[0] = 1, place.record[1] = 2, place.record[2] = 5;
  *place.any = 1;
  // The next launch of any kernel reports the failure; then launches work as before.
  EXPECT_EQ(error_of([&] { run(*other); }),
            "copy.cpp:6: assertion failed: no NaN; element [2] of bool[4] in block (5, 0, 0) of kernel copy, "
            "on device 0 (Fake GPU, sm_90)");
  EXPECT_EQ(error_of([&] { run(*other); }), "no error");
  EXPECT_EQ(error_of([&] { run(*copy); }), "no error");
}

TEST_F(CudaKernelTest, AKernelThatDoesNotAssertPaysNothing) {
  const auto copy = kernel();
  run(*copy);
  EXPECT_EQ(copy->on(0).failures.any, nullptr);
  EXPECT_EQ(count("cuMemHostAlloc"), 0);
  EXPECT_EQ(copy->on(0).code->program.source.find("ailure"), std::string::npos);
  EXPECT_NE(kernel(asserting_text)
                ->on(0)
                .code->program.source.find("FailureLocation failures, u32 starts_early) {"),
            std::string::npos);
}

TEST_F(CudaKernelTest, SaysWhatItCompilesWhereAsked) {
  const auto said = [&] {
    testing::internal::CaptureStderr();
    run(*kernel());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said(), "");
  setenv("TILE_DUMP", "cuda", 1);
  const auto copy = kernel();
  const std::string text = said();
  unsetenv("TILE_DUMP");
  run(*copy);
  EXPECT_EQ(text, "// copy for sm_90\n" + copy->on(0).code->program.source + "\n");
  setenv("TILE_LOG", "1", 1);
  const std::string line = said();
  unsetenv("TILE_LOG");
  EXPECT_TRUE(line.starts_with("tile: copy for sm_90, usual: NVRTC ")) << line;
  EXPECT_NE(line.find(" bytes spilled, chosen\ntile: copy: compiled for sm_90 and loaded on device 0 in "),
            std::string::npos)
      << line;
  EXPECT_NE(line.find(" ms, NVRTC "), std::string::npos) << line;
  EXPECT_TRUE(line.ends_with(" ms of it\n")) << line;
}

TEST_F(CudaKernelTest, RefusesAnOldArch) {
  *fake = {.archs = {75, 80}};
  driver = std::make_unique<Driver>(TILE_FAKE_CUDA);
  EXPECT_EQ(
      error_of([&] { run(*kernel()); }),
      "copy.cpp:3: launch of copy: device 0 (Fake GPU) is sm_75, and kernels need sm_80 or newer; use a "
      "GPU of the Ampere generation or a later one");
}

TEST_F(CudaKernelTest, SaysWhereNvrtcIsMissing) {
  CubinCompiler nowhere(none,
                        [] { return NvrtcPaths{.folders = {"no/wheel"}, .libraries = {"libno.so.13"}}; });
  const CudaKernel copy(parse(copy_text), {"copy", {}}, *driver, nowhere);
  EXPECT_EQ(error_of([&] { run(copy); }),
            "no NVRTC, CUDA's run-time compiler, of version 12.3 or newer is found (libno.so.13: cannot open "
            "shared object file: No such file or directory); install one with `pip install "
            "nvidia-cuda-nvrtc` or set TILE_NVRTC to its file");
}

TEST_F(CudaKernelTest, RefusesTooManyArguments) {
  std::string text = "kernel copy(";
  for (int n = 0; n < 200; ++n) text += str(n ? ", " : "", "%x", n, ": array<f32,1>");
  const auto copy = kernel(text + ") {\n}");
  const std::vector<ArgumentRef> arguments(200, x);
  EXPECT_EQ(error_of([&] {
              copy->run({1, 1, 1}, arguments);
            }),
            "copy.cpp:3: launch of copy: its arguments take 4804 bytes, and a GPU kernel takes at most 4096; "
            "pass fewer arrays");
  // 170 arrays and a number fit, but not with the address where an assertion writes its failure.
  text = "kernel copy(%i: i32";
  for (int n = 0; n < 170; ++n) text += str(", %x", n, ": array<f32,1>");
  const auto asserting = kernel(text + R"() {
  %ok: bool = constant {dtype=bool, value=1}
  assert %ok {message=""}
})");
  EXPECT_EQ(error_of([&] {
              asserting->run({1, 1, 1}, {arguments.data(), 171});
            }),
            "copy.cpp:3: launch of copy: its arguments take 4108 bytes, and a GPU kernel takes at most 4096; "
            "pass fewer arrays");
}

}  // namespace
}  // namespace tile
