// Tests launches: kernels are compiled once per key, and the exact texts for invalid arguments.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <regex>
#include <vector>

#include "driver/fake_cuda/fake_driver.h"
#include "driver/library.h"
#include "error_text.h"
#include "runtime/kernel.h"
#include "runtime/text_kernel.h"
#include "tile.h"

namespace tile {
namespace {

void twice_kernel(Array x, Array y, int size) {
  y.tiled_view({size}).store({bid(0)}, x.tiled_view({size}).load({bid(0)}) * 2.0);
}
Kernel twice("twice", twice_kernel, {"launch_test.cpp", 7});

constexpr const char* copy_text = R"(kernel copy(%x: array<f32,1>, %y: array<f32,1>, %i: i32) {
  %t: f32[4] = load %x, %i {pad=0.0, shape=[4], steps=[4]}
  store %y, %t, %i {steps=[4]}
})";

ArrayArgument array(std::vector<float>& values) {
  ArrayArgument argument;
  argument.data = values.data();
  argument.rank = 1;
  argument.sizes[0] = static_cast<int64_t>(values.size());
  argument.strides[0] = 1;
  return argument;
}
TEST(Launch, CompilesOnceForAllSizes) {
  const size_t before = KernelBase::compiled_counts()["twice"];
  for (size_t n : {1, 3, 4, 5, 100}) {
    std::vector<float> x(n, 3), y(n + 2, 7);
    twice.launch({static_cast<int64_t>(n + 3) / 4}, array(x), array(y), 4);
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], i < n ? 6 : i < (n + 3) / 4 * 4 ? 0 : 7);
  }
  EXPECT_EQ(KernelBase::compiled_counts()["twice"], before + 1);
  std::vector<float> x(4, 3), y(4);
  twice.launch({1}, array(x), array(y), 2);  // another constant, another kernel
  EXPECT_EQ(twice.compiled_count(), before + 2);
}

void scaled_kernel(Array x, Array y, std::optional<Tile> factor, int size) {
  Tile t = x.tiled_view({size}).load({bid(0)});
  y.tiled_view({size}).store({bid(0)}, factor ? t * *factor : t + 100.0);
}
Kernel scaled("scaled", scaled_kernel);

TEST(Launch, ANumberMayBeMissing) {
  const auto got = [](auto factor) {
    std::vector<float> x(4, 3), y(4);
    scaled.launch({1}, array(x), array(y), factor, 4);
    return y;
  };
  EXPECT_EQ(got(2.0f), std::vector<float>(4, 6));
  EXPECT_EQ(got(std::optional(5.0f)), std::vector<float>(4, 15));
  EXPECT_EQ(scaled.compiled_count(), 1u);
  EXPECT_EQ(got(std::optional<float>()), std::vector<float>(4, 103));
  EXPECT_EQ(got(std::nullopt), std::vector<float>(4, 103));
  EXPECT_EQ(scaled.compiled_count(), 2u);
}

TEST(Launch, RefusesArraysBetweenTheirElements) {
  std::vector<float> x(4, 1), y(4);
  ArrayArgument between = array(x);
  between.data = reinterpret_cast<void*>(0x7f02);
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
    ArrayArgument other = array(y);
    other.device = between.device = device;
    EXPECT_EQ(
        error_of([&] { twice.launch({1}, other, between, 4); }),
        "launch_test.cpp:7: launch of twice: array 2 of its arguments begins at address 0x7f02, which is "
        "not a multiple of the 4 bytes of f32; copy it first");
  }
  between.device = DeviceKind::cpu;
  between.sizes[0] = 0;  // empty, so its address does not matter
  twice.launch({1}, between, array(y), 4);
  EXPECT_EQ(y, std::vector<float>(4));
  between.sizes[0] = 1;
  EXPECT_EQ(
      error_of([&] {
        TextKernel(copy_text).launch({}, {array(x), between, scalar_argument(1)});
      }),
      "launch of copy: array 2 of its arguments begins at address 0x7f02, which is not a multiple of the "
      "4 bytes of f32; copy it first");
}

TEST(Launch, RefusesWhatItCannotRun) {
  std::vector<float> x(4), y(4);
  const std::string where = "launch_test.cpp:7: launch of twice: ";
  EXPECT_EQ(error_of([&] { twice.launch({-1}, array(x), array(y), 4); }),
            where + "the grid is (-1, 1, 1); an axis must be at least 0");
  EXPECT_EQ(error_of([&] {
              twice.launch({1, int64_t{1} << 31}, array(x), array(y), 4);
            }),
            where + "the grid is (1, 2147483648, 1); an axis must be at most 2147483647");
  ArrayArgument large = array(x), other = array(x);
  large.sizes[0] = int64_t{1} << 31;
  EXPECT_EQ(error_of([&] { twice.launch({0}, large, array(y), 4); }),
            where + "an array extent is 2147483648; the most is 2147483647, view the array with more axes");
  other.device = DeviceKind::cuda;
  EXPECT_EQ(error_of([&] { twice.launch({1}, array(x), other, 4); }),
            where + "its arrays are on different devices; move them to one");
  EXPECT_EQ(
      error_of([&] {
        twice.launch({65536, 1, 65536}, other, other, 4);
      }),
      where +
          "the grid is (65536, 1, 65536); on a GPU one axis must be at most 2147483647 and the others at "
          "most 65535");
  EXPECT_EQ(
      error_of([&] {
        twice.launch({1, int64_t{1} << 31, 1}, other, other, 4);
      }),
      where +
          "the grid is (1, 2147483648, 1); on a GPU one axis must be at most 2147483647 and the others at "
          "most 65535");
  large.device = DeviceKind::cuda;
  EXPECT_EQ(error_of([&] { twice.launch({1}, large, other, 4); }),
            where + "an array extent is 2147483648; the most is 2147483647, view the array with more axes");
  ArrayArgument second = other;
  second.device_index = 1;
  EXPECT_EQ(error_of([&] { twice.launch({1}, second, other, 4); }),
            where + "its arrays are on different devices; move them to one");
}

void root_kernel(Array x, Array y, int size) {
  Tile t = x.tiled_view({size}).load({bid(0)});
  assert_(t >= 0, "no root of a negative number");
  y.tiled_view({size}).store({bid(0)}, sqrt(t));
}
Kernel root("root", root_kernel);

TEST(Launch, AFailedAssertionNamesItsLine) {
  std::vector<float> x(10, 4), y(10);
  root.launch({3}, array(x), array(y), 4);
  EXPECT_EQ(y, std::vector<float>(10, 2));
  x[6] = -1;
  const std::string text = error_of([&] { root.launch({3}, array(x), array(y), 4); });
  EXPECT_EQ(
      std::regex_replace(text, std::regex(R"(launch_test\.cpp:\d+)"), "here"),
      "here: assertion failed: no root of a negative number; element [2] of bool[4] in block (1, 0, 0) of "
      "kernel root");
  try {
    root.launch({3}, array(x), array(y), 4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::runtime);
  }
}

// Returns the result of an action in a child process, because a process opens one driver, whose library is
// set in the environment.
std::string in_child(const char* driver, const std::function<std::string()>& action) {
  int ends[2];
  if (pipe(ends)) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    setenv("TILE_CUDA_DRIVER", driver, 1);
    setenv("TILE_NVRTC", TILE_FAKE_CUDA, 1);
    setenv("TILE_CACHE_MB", "0", 1);
    const std::string text = action();
    _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char bytes[512];
  for (ssize_t n = 0; (n = read(ends[0], bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<size_t>(n));
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0 ? text : str("the child ended with ", status);
}

TEST(Launch, OnAGpuCompilesAKernelForEachKindOfArray) {
  EXPECT_EQ(in_child(TILE_FAKE_CUDA,
                     [] {
                       GetFakeDriver* get = nullptr;
                       Library::open(TILE_FAKE_CUDA).require("fake_driver", get, "build it");
                       *get() = {};
                       const size_t before = twice.compiled_count();
                       std::string counts;
                       for (const size_t n : {4, 400, 5, 0}) {
                         std::vector<float> x(n), y(n);
                         ArrayArgument from = array(x), to = array(y);
                         from.data = to.data = nullptr;
                         from.device = to.device = DeviceKind::cuda;
                         twice.launch({static_cast<int64_t>(n + 3) / 4}, from, to, 4);
                         const auto launches = std::count_if(
                             get()->calls.begin(), get()->calls.end(),
                             [](const std::string& call) { return call.starts_with("cuLaunchKernelEx"); });
                         counts += str(twice.compiled_count() - before, ":", launches, " ");
                       }
                       return counts;
                     }),
            "1:1 1:2 2:3 3:3 ");  // an empty grid launches nothing
}

TEST(Launch, WithoutADriverSaysSo) {
  EXPECT_EQ(in_child("libno_such_driver.so.1",
                     [] {
                       std::vector<float> x(4);
                       ArrayArgument on_gpu = array(x);
                       on_gpu.device = DeviceKind::cuda;
                       return error_of([&] { twice.launch({1}, on_gpu, on_gpu, 4); });
                     }),
            "no NVIDIA driver: libno_such_driver.so.1: cannot open shared object file: No such file or "
            "directory; install the NVIDIA driver 545 or newer");
}

TEST(Launch, TextKernelsRunOnAGpu) {
  EXPECT_EQ(in_child(TILE_FAKE_CUDA,
                     [] {
                       GetFakeDriver* get = nullptr;
                       Library::open(TILE_FAKE_CUDA).require("fake_driver", get, "build it");
                       *get() = {};
                       const TextKernel copy(copy_text);
                       std::vector<float> x(4), y(5);
                       ArrayArgument whole = array(x), ragged = array(y);
                       whole.device = ragged.device = DeviceKind::cuda;
                       for (const ArrayArgument& to : {whole, ragged, whole})
                         copy.launch({}, {whole, to, scalar_argument(0)});
                       std::string calls;
                       for (const std::string& call : get()->calls)
                         calls += call.substr(0, call.find(' ')) + " ";
                       return calls;
                     }),
            "cuDevicePrimaryCtxRetain cuCtxSetCurrent "
            "cuThreadExchangeStreamCaptureMode cuThreadExchangeStreamCaptureMode "
            "cuModuleLoadData cuThreadExchangeStreamCaptureMode "
            "cuModuleGetFunction cuThreadExchangeStreamCaptureMode cuLaunchKernelEx "
            "cuThreadExchangeStreamCaptureMode cuThreadExchangeStreamCaptureMode "
            "cuModuleLoadData cuThreadExchangeStreamCaptureMode "
            "cuModuleGetFunction cuThreadExchangeStreamCaptureMode cuLaunchKernelEx "
            "cuLaunchKernelEx ");
}

TEST(Launch, TextKernelsCheckTheirArguments) {
  const TextKernel copy(copy_text);
  std::vector<float> x(4, 5), y(4);
  copy.launch({}, {array(x), array(y), scalar_argument(0)});
  EXPECT_EQ(y, x);
  const std::string takes = "launch of copy: takes (array<f32,1>, array<f32,1>, i32) but is given (",
                    fix = "); give one argument of its type for each parameter";
  EXPECT_EQ(error_of([&] {
              copy.launch({}, {array(x), array(y)});
            }),
            takes + "array<f32,1>, array<f32,1>" + fix);
  EXPECT_EQ(error_of([&] {
              copy.launch({}, {scalar_argument(0), array(x), array(y)});
            }),
            takes + "i32, array<f32,1>, array<f32,1>" + fix);
  EXPECT_EQ(error_of([&] {
              copy.launch({}, {array(x), array(y), scalar_argument(0.0)});
            }),
            takes + "array<f32,1>, array<f32,1>, f64" + fix);
}

}  // namespace
}  // namespace tile
