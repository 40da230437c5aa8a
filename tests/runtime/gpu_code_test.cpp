// Tests the choice of a kernel's configuration for a GPU: with a fake NVRTC, and with real spills.
#include "runtime/gpu_code.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <regex>

#include "dense_arrays.h"
#include "driver/compile_log.h"
#include "driver/fake_cuda/fake_nvrtc.h"
#include "error_text.h"
#include "ir/print.h"

namespace tile {
namespace {

namespace fs = std::filesystem;

// The usual configuration has one warp; the others have one CTA per multiprocessor, or two warps.
constexpr const char* copy_text = R"(kernel copy(%x: array<f32,1>, %y: array<f32,1>, %i: i32) {
  %t: f32[4] = load %x, %i {pad=0.0, shape=[4], steps=[4]}
  store %y, %t, %i {steps=[4]}
})";
constexpr const char *usual = "TILE_KERNEL(32, 16) ", *single_cta = "TILE_KERNEL(32, 1) ",
                     *two = "TILE_KERNEL(64, 1) ";

std::string spilling(int stores, int loads) {
  return str(
      "ptxas info    : Compiling entry function 'kernel_copy' for 'sm_90a'\nptxas         .     8 bytes "
      "stack "
      "frame, ",
      stores, " bytes spill stores, ", loads, " bytes spill loads");
}

class GpuCodeTest : public ::testing::Test {
 protected:
  GpuCodeTest() {
    fs::remove_all(folder);
    GetFakeNvrtc* get = nullptr;
    Library::open(TILE_FAKE_CUDA).require("fake_nvrtc", get, "build it");
    fake = get();
    *fake = {};
  }
  ~GpuCodeTest() override {
    *fake = {};
    fs::remove_all(folder);
  }
  static NvrtcPaths fake_places() { return {.only = TILE_FAKE_CUDA}; }
  static NvrtcPaths real_places() {
    NvrtcPaths places;
    for (const char* wheel : {"/nvidia/cuda_nvrtc/lib", "/nvidia/cu13/lib"})
      places.folders.push_back(std::string(TILE_TEST_PACKAGES) + wheel);
    return places;
  }
  // Compiles as a new process would.
  GpuCode compile(const char* text, const KernelName& name, NvrtcPaths (*places)() = fake_places) {
    CubinCompiler compiler(cache, places);
    testing::internal::CaptureStderr();
    GpuCode code = compile_for_gpu(parse(text), name, {.arch = 90, .shared_bytes = 227 * 1024}, compiler);
    said = testing::internal::GetCapturedStderr();
    loaded = compiler.nvrtc_loaded();
    return code;
  }
  bool chooses(const char* words, const KernelName& name = {"copy", {"copy.cpp", 3}}) {
    return compile(copy_text, name).program.source.find(words) != std::string::npos;
  }

  const fs::path folder = fs::path(::testing::TempDir()) / ("gpu_code_" + std::to_string(getpid()));
  const DiskCache cache{{.folder = folder.string()}};
  FakeNvrtc* fake;
  std::string said;
  bool loaded = false;
};

TEST_F(GpuCodeTest, OneCompileWhereTheUsualConfigurationIsGood) {
  fake->logs = {{usual, spilling(64, 64)}};
  EXPECT_TRUE(chooses(usual));
  EXPECT_EQ(fake->compiled, 1);
  EXPECT_EQ(said, "");
}

TEST_F(GpuCodeTest, TheFirstOfEquallyGoodOnesThatDoNotSpill) {
  fake->logs = {{usual, spilling(100, 200)}, {single_cta, spilling(200, 0)}};
  EXPECT_TRUE(chooses(two));
  EXPECT_EQ(fake->compiled, 3);
  fake->logs = {{usual, spilling(100, 200)}};
  fs::remove_all(folder);
  EXPECT_TRUE(chooses(single_cta));
  EXPECT_EQ(said, "");
}

TEST_F(GpuCodeTest, WhatMayPassIsBetterThanWhatMayNot) {
  fake->logs = {{usual, spilling(70, 70)}, {single_cta, spilling(70, 80)}, {two, spilling(60, 60)}};
  EXPECT_TRUE(chooses(two));  // although a block of it spills more
  EXPECT_EQ(said, "");
}

TEST_F(GpuCodeTest, TheChoiceOfAFormerProcessNeedsNoNvrtc) {
  fake->logs = {{usual, spilling(100, 200)}, {single_cta, spilling(200, 0)}};
  EXPECT_TRUE(chooses(two));
  EXPECT_TRUE(chooses(two));
  EXPECT_FALSE(loaded);
  EXPECT_EQ(fake->compiled, 3);
}

TEST_F(GpuCodeTest, ALossOfSpeedIsWorseThanASpill) {
  fake->logs = {{usual, "ptxas info : (C7510) Potential Performance Loss: wgmma is serialized\nmore"}};
  EXPECT_TRUE(chooses(single_cta));
  EXPECT_EQ(said, "");
  fake->logs[single_cta] = fake->logs[usual] + "\n" + spilling(8, 8);
  fake->logs[two] = spilling(4000, 4000);
  fs::remove_all(folder);
  EXPECT_TRUE(chooses(two, {"a", {"lossy.cpp", 1}}));
  EXPECT_EQ(
      said,
      "tile: warning: lossy.cpp:1: a: its code for sm_90 spills 8000 bytes of registers a thread, in every "
      "configuration; use smaller tiles\n");
  fake->logs[two] = fake->logs[single_cta];
  fs::remove_all(folder);
  EXPECT_TRUE(chooses(usual, {"b", {"lossy.cpp", 2}}));
  EXPECT_EQ(
      said,
      "tile: warning: lossy.cpp:2: b: its code for sm_90 is slower than it could be: wgmma is serialized\n");
}

// A kernel on warpgroup instructions may spill a little where no other configuration of these spills nothing.
TEST_F(GpuCodeTest, SmallSpillsOfWarpgroupsAreBetterThanOtherInstructions) {
  Function function = parse(R"(kernel copy(%a: array<bf16,2>, %b: array<bf16,2>, %c: array<bf16,2>) {
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %n: i32 = dim %a {axis=1}
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[128,64] = broadcast %z {shape=[128,64]}
  %r: f32[128,64] = for %0, %n, %1, %zs (%k: i32, %acc: f32[128,64]) {
    %x: bf16[128,64] = load %a, %0, %k {pad=0.0, shape=[128,64], steps=[128,64]}
    %y: bf16[64,64] = load %b, %k, %0 {pad=0.0, shape=[64,64], steps=[64,64]}
    %m: f32[128,64] = mma %x, %y, %acc
    yield %m
  }
  %o: bf16[128,64] = astype %r {dtype=bf16}
  store %c, %o, %0, %0 {steps=[128,64]}
}
)");
  make_dense(function, 3);
  const auto path = [&](const std::string& log) {
    fake->logs = {{"TILE_GROUPS", log}};
    fs::remove_all(folder);
    CubinCompiler compiler(cache, fake_places);
    testing::internal::CaptureStderr();
    const GpuCode code = compile_for_gpu(function, {"copy", {"small.cpp", 1}},
                                         {.arch = 90, .shared_bytes = 227 * 1024, .wgmma = true}, compiler);
    said = testing::internal::GetCapturedStderr();
    return code.program.path;
  };
  EXPECT_EQ(path(spilling(0, 0)), "wgmma");
  EXPECT_EQ(path(spilling(128, 128)), "wgmma");
  EXPECT_EQ(said, "");
  EXPECT_EQ(path(spilling(128, 129)), "mma.sync");
}

TEST_F(GpuCodeTest, TheLeastBadRunsAndOneWarningSaysSo) {
  fake->log = spilling(100, 100);
  fake->logs = {{single_cta, spilling(80, 70)}};  // two warps of 80 would spill more
  EXPECT_TRUE(chooses(single_cta, {"copy", {"tired.cpp", 7}}));
  EXPECT_EQ(said,
            "tile: warning: tired.cpp:7: copy: its code for sm_90 spills 150 bytes of registers a thread, "
            "in every "
            "configuration; use smaller tiles\n");
  EXPECT_TRUE(chooses(single_cta, {"copy", {"tired.cpp", 7}}));
  EXPECT_EQ(said, "");
}

TEST_F(GpuCodeTest, AnErrorOfNvrtcIsTheUsualConfigurationS) {
  fake->code = 6;
  CubinCompiler compiler(cache, fake_places);
  EXPECT_EQ(
      error_of([&] {
        compile_for_gpu(parse(copy_text), {"copy", {}}, {}, compiler);
      }),
      "copy.cu: CUDA C++ does not compile for sm_90a: NVRTC_ERROR_OF_THE_FAKE; the log of NVRTC 13.0:\n");
  EXPECT_EQ(fake->compiled, 1);
}

TEST_F(GpuCodeTest, TheOthersAreCompiledAtOnce) {
  fake->log = spilling(100, 200);
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0, met = 0;
  fake->compiling = [&] {
    std::unique_lock lock(mutex);
    if (++begun == 1) return;  // the usual configuration
    changed.notify_all();
    met += changed.wait_for(lock, std::chrono::seconds(60), [&] { return begun == 3; });
  };
  compile(copy_text, {"copy", {"meeting.cpp", 1}});
  EXPECT_EQ(met, 2);
}

TEST_F(GpuCodeTest, OneThatDoesNotCompileIsNotChosen) {
  fake->logs = {{usual, spilling(100, 200)}};
  fake->codes = {{single_cta, 6}};
  EXPECT_TRUE(chooses(two));
  fake->codes[two] = 6;
  fs::remove_all(folder);
  EXPECT_TRUE(chooses(usual, {"copy", {"failing.cpp", 1}}));
  EXPECT_EQ(said,
            "tile: warning: failing.cpp:1: copy: its code for sm_90 spills 300 bytes of registers a thread, "
            "in every configuration; use smaller tiles\n");
}

TEST_F(GpuCodeTest, TheLogHasALineForEachCandidate) {
  const auto lines = [&](const char* from) {
    setenv("TILE_LOG", "1", 1);
    compile(copy_text, {"copy", {"logged.cpp", 1}});
    unsetenv("TILE_LOG");
    EXPECT_TRUE(std::regex_search(said, std::regex(from))) << said;
    return std::regex_replace(said, std::regex("(NVRTC|cache) [0-9.]+ ms"), "TIME");
  };
  EXPECT_EQ(lines("NVRTC"),
            "tile: copy for sm_90, usual: TIME, 32 threads of 0 registers, 0 bytes spilled, chosen\n");
  fs::remove_all(folder);
  fake->logs = {{usual, spilling(100, 200) + "\nptxas info    : Used 40 registers"},
                {single_cta, spilling(99, 0)}};
  const std::string spills =
      "tile: copy for sm_90, usual: TIME, 32 threads of 40 registers, 300 bytes spilled, not chosen: spills "
      "more "
      "than 128 bytes a thread\n";
  const std::string first =
      spills +
      "tile: copy for sm_90, single CTA: TIME, 32 threads of 0 registers, 99 bytes spilled, "
      "chosen\n"
      "tile: copy for sm_90, 2x warps, single CTA: TIME, 64 threads of 0 registers, 0 bytes "
      "spilled, not chosen: one before it is as good\n";
  EXPECT_EQ(lines("NVRTC"), first);
  EXPECT_EQ(lines("cache"), first);
  fs::remove_all(folder);
  fake->codes = {{single_cta, 6}};
  fake->logs[two] = "Potential Performance Loss: slow";
  EXPECT_EQ(
      lines("NVRTC"),
      "tile: copy for sm_90, usual: TIME, 32 threads of 40 registers, 300 bytes spilled, chosen: the least "
      "bad\n"
      "tile: copy for sm_90, single CTA: not chosen: copy.cu: CUDA C++ does not compile for sm_90a: "
      "NVRTC_ERROR_OF_THE_FAKE; the log of NVRTC 13.0:\n"
      "tile: copy for sm_90, 2x warps, single CTA: TIME, 64 threads of 0 registers, 0 bytes spilled, not "
      "chosen: "
      "slower than it could be: slow\n"
      "tile: warning: logged.cpp:1: copy: its code for sm_90 spills 300 bytes of registers a thread, in "
      "every "
      "configuration; use smaller tiles\n");
}

// The usual configuration is expected to need 228 registers a thread. Both others have enough; ptxas says
// which leaves room for more warps.
TEST_F(GpuCodeTest, TheOneThatIsEstimatedToBeFastest) {
  const auto used = [](int registers) {
    return str("\nptxas info    : Used ", registers, " registers, used 0 barriers");
  };
  fake->logs = {{usual, spilling(800, 800) + used(28)},
                {single_cta, spilling(0, 0) + used(228)},
                {two, spilling(0, 0) + used(120)}};
  EXPECT_TRUE(chooses(two));
  EXPECT_EQ(said, "");
  fake->logs[two] = spilling(0, 0) + used(250);
  fs::remove_all(folder);
  EXPECT_TRUE(chooses(single_cta));
}

// Two accumulators of a product each: 4 warps have too few registers for both, 8 have enough.
constexpr const char* two_sums =
    R"(kernel two_sums(%x: array<bf16,2>, %y: array<bf16,2>, %out: array<f32,2>, %turns: i32) {
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  %nothing: f32 = constant {dtype=f32, value=0.0}
  %none: f32[128,128] = broadcast %nothing {shape=[128,128]}
  %sum: f32[128,128], %other: f32[128,128] = for %zero, %turns, %one, %none, %none (%k: i32, %a: f32[128,128], %b: f32[128,128]) {
    %left: bf16[128,16] = load %x, %zero, %k {pad=0.0, shape=[128,16], steps=[128,16]}
    %right: bf16[16,128] = load %y, %k, %zero {pad=0.0, shape=[16,128], steps=[16,128]}
    %more: bf16[16,128] = load %y, %k, %one {pad=0.0, shape=[16,128], steps=[16,128]}
    %p: f32[128,128] = mma %left, %right, %a
    %q: f32[128,128] = mma %left, %more, %b
    yield %p, %q
  }
  store %out, %sum, %zero, %zero {steps=[128,128]}
  store %out, %other, %zero, %one {steps=[128,128]}
})";

TEST_F(GpuCodeTest, NvrtcSpillsAndTheNextDoesNot) {
  const GpuCode code = compile(two_sums, {"two_sums", {"sums.cpp", 5}}, real_places);
  EXPECT_EQ(code.program.threads, 256);
  EXPECT_EQ(resources_in(code.result.log, code.program.entry).spill_stores, 0);
  EXPECT_EQ(said, "");
  CubinCompiler compiler(cache, real_places);
  const cuda::Target target{.arch = 90, .shared_bytes = 227 * 1024};
  const cuda::Program first(parse(two_sums), target);
  EXPECT_EQ(first.threads, 128);
  const CompileResult result = compiler.compile(request_of(first.source, "two_sums", 90));
  EXPECT_TRUE(result.from_disk);
  EXPECT_GT(resources_in(result.log, first.entry).spill_stores, 128);
}

}  // namespace
}  // namespace tile
