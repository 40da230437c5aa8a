// Tests CUDA C++ kernels, compiled by NVRTC and launched on a fake driver: the parameters of a launch, and
// the exact text of every error.
#include "raw_cuda/raw_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "driver/current_stream.h"
#include "driver/fake_cuda/fake_driver.h"
#include "error_text.h"

namespace tile {
namespace {

constexpr const char* text = R"(#include "scale.h"
struct Pair { int first; float second; };
enum class Mode : short { off, on };
__constant__ float weights[4];
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
namespace ns {
template <class T, int N>
__global__ void __launch_bounds__(256) scale(T* x, Pair p, bool on, unsigned char c, long long n, Mode m) {
  if (on && m == Mode::on) x[n] = by(x[c]) * N * p.second * weights[1];
}
}  // namespace ns
)";

NvrtcPaths places() {
  NvrtcPaths found;
  for (const char* folder : {"/nvidia/cuda_nvrtc/lib", "/nvidia/cu13/lib"})
    found.folders.push_back(std::string(TILE_TEST_PACKAGES) + folder);
  return found;
}
CubinCompiler& compiler() {
  static const DiskCache none{{.folder = ""}};
  static CubinCompiler compiler{none, places};
  return compiler;
}

class RawKernelTest : public ::testing::Test {
 protected:
  RawKernelTest() {
    GetFakeDriver* get = nullptr;
    Library::open(TILE_FAKE_CUDA).require("fake_driver", get, "build it");
    fake = get();
    *fake = {.archs = {90, 90}};
    driver = std::make_unique<Driver>(TILE_FAKE_CUDA);
    for (ArrayArgument* array : {&x, &y}) array->device = DeviceKind::cuda;
    x.data = reinterpret_cast<void*>(4096);
    y.data = reinterpret_cast<void*>(8192);
  }
  ~RawKernelTest() override {
    set_current_stream([](int) -> void* { return nullptr; });
    set_current_device([] { return 0; });
    *fake = {};
  }
  std::shared_ptr<const CudaSource> source(std::vector<std::string> names, CudaSourceOptions options = {},
                                           std::string of = text) {
    options.file = "test.cu";
    options.headers = {{"scale.h", "template <class T> __device__ T by(T x) { return x * FACTOR; }"}};
    options.options.emplace_back("-DFACTOR=3");
    return std::make_shared<CudaSource>(std::move(of), std::move(names), options, compiler(), driver.get());
  }
  RawKernel saxpy(CudaSourceOptions options = {}) { return {source({"saxpy"}, std::move(options)), 0}; }
  std::string error(const RawGrid& grid, auto... arguments) {
    return error_of([&] { saxpy().launch(grid, arguments...); });
  }
  std::string compile_error(std::vector<std::string> names, std::string of = text) {
    return error_of([&] { source(std::move(names), {}, std::move(of))->compiled(90); });
  }

  FakeDriver* fake;
  std::unique_ptr<Driver> driver;
  ArrayArgument x, y;
};

template <class T>
T value(const std::string& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

TEST_F(RawKernelTest, ConvertsNumbersToTheParametersTypes) {
  const RawKernel kernel = saxpy();
  set_current_stream([](int device) { return reinterpret_cast<void*>(int64_t{70} + device); });
  fake->parameter_bytes = {4, 8, 8, 4};
  kernel.launch({{5, 6}, {32, 2}}, 2.5, x, y, int64_t{7});
  EXPECT_EQ(value<float>(fake->parameters.at(0)), 2.5f);
  EXPECT_EQ(value<int64_t>(fake->parameters.at(1)), 4096);
  EXPECT_EQ(value<int64_t>(fake->parameters.at(2)), 8192);
  EXPECT_EQ(value<int>(fake->parameters.at(3)), 7);
  EXPECT_NE(fake->calls.back().find("grid 5 6 1 block 32 2 1 shared 0 stream 70 "), std::string::npos)
      << fake->calls.back();
  kernel.launch({{5}, {32}}, 3, nullptr, y, true);
  EXPECT_EQ(value<float>(fake->parameters.at(0)), 3.0f);
  EXPECT_EQ(value<int64_t>(fake->parameters.at(1)), 0);
  EXPECT_EQ(value<int>(fake->parameters.at(3)), 1);
  const size_t before = fake->calls.size();
  kernel.launch({{0}, {32}}, 3, x, y, 1);  // an empty grid
  EXPECT_EQ(fake->calls.size(), before);
}

TEST_F(RawKernelTest, TemplatesStructsAndEnums) {
  const auto both = source({"saxpy", "ns::scale<float, 4>", "ns::scale<double, 2>"});
  const RawKernel scale(both, 2);
  const std::vector<CType>& types = scale.compiled(90).parameters;
  EXPECT_EQ(join(types, "; ", [](const CType& type) { return type.text; }),
            "double*; Pair; bool; unsigned char; long long; Mode");
  x.dtype = DType::f64;
  struct {
    int first;
    float second;
  } pair{3, 0.5f};
  fake->parameter_bytes = {8, 8, 1, 1, 8, 2};
  scale.launch({{1}, {256}}, x, RawArgument::bytes(&pair, sizeof pair), true, 200u, -5, 1);
  EXPECT_EQ(value<decltype(pair)>(fake->parameters.at(1)).second, 0.5f);
  EXPECT_EQ(value<uint8_t>(fake->parameters.at(2)), 1);
  EXPECT_EQ(value<uint8_t>(fake->parameters.at(3)), 200);
  EXPECT_EQ(value<int64_t>(fake->parameters.at(4)), -5);
  EXPECT_EQ(value<int16_t>(fake->parameters.at(5)), 1);
  const auto wrong = [&](auto... arguments) {
    return error_of([&] { scale.launch({{1}, {256}}, arguments...); });
  };
  const std::string name = "ns::scale<double, 2>: argument ";
  const RawArgument good = RawArgument::bytes(&pair, sizeof pair), shorter = RawArgument::bytes(&pair, 4);
  EXPECT_EQ(wrong(x, shorter, true, 1, 1, 1),
            name + "2 is 4 bytes, but the kernel takes Pair; that has 8 bytes");
  EXPECT_EQ(wrong(x, 1, true, 1, 1, 1), name + "2 is 1, but the kernel takes Pair; give its 8 bytes");
  EXPECT_EQ(wrong(x, good, 0.5, 1, 1, 1), name + "3 is 0.5, but the kernel takes bool; give True or False");
  EXPECT_EQ(wrong(x, good, true, -1, 1, 1), name +
                                                "4 is -1, but the kernel takes unsigned char; it has 8 bits "
                                                "and no sign: give a number in its range");
  EXPECT_EQ(wrong(x, good, true, 256, 1, 1), name +
                                                 "4 is 256, but the kernel takes unsigned char; it has 8 "
                                                 "bits and no sign: give a number in its range");
  EXPECT_EQ(wrong(x, good, true, 1, uint64_t{1} << 63, 1),
            name +
                "5 is 9223372036854775808, but the kernel takes long long; it has 64 bits: give a number in "
                "its range");
}

TEST_F(RawKernelTest, RefusesWhatDoesNotFit) {
  const RawGrid one({1}, {32});
  EXPECT_EQ(error(one, 1.0, x, y),
            "saxpy: takes 4 arguments (float, float const*, float*, int) but is given 3; give one for each");
  ArrayArgument host = x, half = x, second = x;
  host.device = DeviceKind::cpu;
  half.dtype = DType::bf16;
  second.device_index = 1;
  EXPECT_EQ(error(one, 1.0, host, y, 1),
            "saxpy: argument 2 is a tensor on the CPU, but the kernel takes float const*; move it to the GPU "
            "with .cuda()");
  EXPECT_EQ(error(one, 1.0, half, y, 1),
            "saxpy: argument 2 is a tensor of bf16, but the kernel takes float const*; convert it, or view "
            "it as that dtype");
  EXPECT_EQ(error(one, 1.0, x, second, 1),
            "saxpy: argument 2 is on device 0 and argument 3 on device 1; move them to one");
  EXPECT_EQ(
      error(one, 1.0, 3, y, 1),
      "saxpy: argument 2 is 3, but the kernel takes float const*; give a tensor, or None for a null pointer");
  EXPECT_EQ(error(one, x, x, y, 1),
            "saxpy: argument 1 is a tensor, but the kernel takes float; give a number, as x.item() is");
  EXPECT_EQ(error(one, nullptr, x, y, 1),
            "saxpy: argument 1 is None, but the kernel takes float; give a number");
  EXPECT_EQ(error(one, 1.0, x, y, 2.5),
            "saxpy: argument 4 is 2.5, but the kernel takes int; convert it to an integer");
  EXPECT_EQ(error(one, 1.0, x, y, int64_t{1} << 31),
            "saxpy: argument 4 is 2147483648, but the kernel takes int; it has 32 bits: give a number in its "
            "range");
  EXPECT_EQ(error({{1}, {1024}}, 1.0, x, y, 1),
            "saxpy: a block of (1024, 1, 1) has 1024 threads; this kernel can have 512 on device 0, take "
            "fewer, or declare "
            "it __launch_bounds__(1024)");
  EXPECT_EQ(error({{1}, {2048}}, 1.0, x, y, 1),
            "saxpy: the block is (2048, 1, 1); its axes must be at least 1 and at most 1024, 1024 and 64");
  EXPECT_EQ(error({{1, 65536}, {1}}, 1.0, x, y, 1),
            "saxpy: the grid is (1, 65536, 1); its axes must be at least 0 and at most 2147483647, 65535 and "
            "65535");
  EXPECT_EQ(error({{1}, {1}, -1}, 1.0, x, y, 1),
            "saxpy: -1 bytes of shared memory; give what a block can have");
  EXPECT_EQ(error_of([] { RawGrid({1, 1, 1, 1}, {1}); }), "a launch: the grid has 4 axes; the most is 3");
}

TEST_F(RawKernelTest, PointersAreMultiplesOfWhatTheyPointTo) {
  const auto between = [&](intptr_t address) {
    ArrayArgument array = x;
    array.data = reinterpret_cast<void*>(address);
    return array;
  };
  EXPECT_EQ(error({{1}, {32}}, 1.0, between(4098), y, 1),
            "saxpy: argument 2 is a tensor at address 0x1002, but the kernel takes float const*; copy it "
            "first, with .clone(): its address must be a multiple of 4");
  EXPECT_EQ(error({{1}, {32}}, 1.0, between(4100), y, 1), "no error");
  const RawKernel copy(source({"copy"}, {}, R"(
struct Own { float4 x; };
__global__ void copy(const float4* x, double2* y, const short4* z, uchar3* u, void* v, Own* w) {})"),
                       0);
  const auto copied = [&](intptr_t a, intptr_t b, intptr_t c) {
    return error_of([&] {
      copy.launch({{1}, {1}}, between(a), between(b), between(c), between(4097), between(4097),
                  between(4097));
    });
  };
  const std::string fix = "; copy it first, with .clone(): its address must be a multiple of ";
  EXPECT_EQ(copied(4096, 4096, 4104), "no error");
  EXPECT_EQ(
      copied(4104, 4096, 4096),
      "copy: argument 1 is a tensor at address 0x1008, but the kernel takes float4 const*" + fix + "16");
  EXPECT_EQ(copied(4096, 4104, 4096),
            "copy: argument 2 is a tensor at address 0x1008, but the kernel takes double2*" + fix + "16");
  EXPECT_EQ(copied(4096, 4096, 4100),
            "copy: argument 3 is a tensor at address 0x1004, but the kernel takes short4 const*" + fix + "8");
}

TEST_F(RawKernelTest, HalvesAreRounded) {
  const CType half{.kind = CType::Kind::floating, .bytes = 2, .dtype = DType::f16, .text = "__half"};
  const CType brain{.kind = CType::Kind::floating, .bytes = 2, .dtype = DType::bf16, .text = "__nv_bfloat16"};
  const auto bits = [](const CType& type, double value) {
    uint16_t bits = 0;
    put_argument("k", 1, type, value, &bits);
    return bits;
  };
  const std::pair<double, int> halves[] = {{1, 0x3c00},      {-2.5, 0xc100},        {65504, 0x7bff},
                                           {65520, 0x7c00},  {0x1p-24, 0x0001},     {-0.0, 0x8000},
                                           {1e-30, 0},       {0x1p-14, 0x0400},     {0.1, 0x2e66},
                                           {2047.5, 0x6800}, {std::nan(""), 0x7e00}};
  for (const auto& [number, expected] : halves) EXPECT_EQ(bits(half, number), expected) << number;
  EXPECT_EQ(bits(brain, 1), 0x3f80);
  EXPECT_EQ(bits(brain, 1.00390625), 0x3f80);  // a tie rounds to even
  EXPECT_EQ(bits(brain, -3.14159), 0xc049);
}

TEST_F(RawKernelTest, AnUnsignedPointerTakesBits) {
  const auto takes = [](DType pointee, DType dtype) {
    const CType type{.kind = CType::Kind::pointer, .bytes = 8, .dtype = pointee, .text = "T*"};
    ArrayArgument array{.dtype = dtype, .device = DeviceKind::cuda};
    void* pointer;
    return error_of([&] { put_argument("k", 1, type, array, &pointer); }) == "no error";
  };
  EXPECT_TRUE(takes(DType::u16, DType::bf16));
  EXPECT_TRUE(takes(DType::i8, DType::boolean));
  EXPECT_TRUE(takes(DType::i64, DType::u64));
  EXPECT_FALSE(takes(DType::i16, DType::bf16));
  EXPECT_FALSE(takes(DType::u32, DType::f64));
  EXPECT_FALSE(takes(DType::f32, DType::i32));
}

TEST_F(RawKernelTest, NamesThatNameNothing) {
  EXPECT_EQ(compile_error({"saxpy", "sax"}),
            "test.cu: there is no kernel 'sax'; the source has saxpy, scale");
  EXPECT_EQ(compile_error({"k"}, "__device__ int k; // __global__ void no(int);"),
            "test.cu: there is no kernel 'k'; the source has none: declare it __global__");
  const std::string wrong = compile_error({"ns::scale<float>"});
  EXPECT_TRUE(
      wrong.starts_with("test.cu: 'ns::scale<float>': cannot determine which instance of function template "))
      << wrong;
  EXPECT_TRUE(
      wrong.ends_with("; name a kernel as a C++ expression would, with all of its template arguments"))
      << wrong;
  EXPECT_EQ(compile_error({}), "test.cu: no kernel is named; give the name of one at least");
}

TEST_F(RawKernelTest, ASourceThatDoesNotCompileNamesItsLine) {
  const std::string error = compile_error({"k"}, "__global__ void k(int* x) {\n  *x = b;\n}");
  EXPECT_EQ(error.substr(0, error.find("; the log")),
            "test.cu:2: CUDA C++ does not compile for sm_90a: identifier \"b\" is undefined");
  EXPECT_NE(error.find("\n    *x = b;\n"), std::string::npos) << error;
}

TEST_F(RawKernelTest, SharedMemoryClustersAndProgrammaticLaunches) {
  const RawKernel kernel = saxpy({.cluster = {2, 1, 1}, .programmatic = true});
  kernel.launch({{2}, {32}, 100'000}, 1.0, x, y, 1);
  EXPECT_NE(fake->calls.back().find(" shared 100000 "), std::string::npos);
  EXPECT_TRUE(fake->calls.back().ends_with("attributes 4:2 1 1 6:1")) << fake->calls.back();
  const auto asked = [&] {
    return std::count(fake->calls.begin(), fake->calls.end(), "cuFuncSetAttribute 300 8 100000");
  };
  EXPECT_EQ(asked(), 1);
  kernel.launch({{2}, {32}, 90'000}, 1.0, x, y, 1);
  EXPECT_EQ(asked(), 1);
  fake->results["cuFuncSetAttribute"] = 1;
  EXPECT_EQ(error_of([&] {
              kernel.launch({{2}, {32}, 300'000}, 1.0, x, y, 1);
            }),
            "saxpy: a block cannot have 300000 bytes of shared memory; device 0 (Fake GPU, sm_90) has 232448 "
            "for it: "
            "CUDA_ERROR_INVALID_VALUE (meaning of 1)");
}

TEST_F(RawKernelTest, RunsOnTheTensorsDeviceOrTheCurrentOne) {
  const RawKernel kernel = saxpy();
  driver->use(0);
  x.device_index = y.device_index = 1;
  kernel.launch({{1}, {32}}, 1.0, x, y, 1);
  EXPECT_EQ(fake->calls.back(), "cuCtxSetCurrent 100");
  set_current_device([] { return 1; });
  kernel.launch({{1}, {32}}, 1.0, nullptr, nullptr, 1);
  EXPECT_EQ(fake->calls.back(), "cuCtxSetCurrent 100");
}

TEST_F(RawKernelTest, EachDeviceHasItsOwnCodeVariablesAndSharedMemory) {
  const auto all = source({"saxpy"});
  const RawKernel kernel(all, 0);
  set_current_stream([](int device) { return reinterpret_cast<void*>(int64_t{70} + device); });
  driver->use(0);
  const auto calls = [&](const std::string& start) {
    return std::count_if(fake->calls.begin(), fake->calls.end(),
                         [&](const std::string& call) { return call.starts_with(start); });
  };
  for (const int device : {1, 0, 1}) {
    x.device_index = y.device_index = device;
    kernel.launch({{1}, {32}, 100'000}, 1.0, x, y, 1);
    all->set_variable(device, "weights", "sixteen letters!", 16, false);
  }
  for (const int device : {0, 1}) {
    EXPECT_EQ(calls(str("cuFuncSetAttribute ", 300 + device, " 8 100000")), 1);
    EXPECT_EQ(calls(str("cuLaunchKernelEx ", 300 + device, " ")), 1 + device);
    EXPECT_EQ(calls(str("cuMemcpyHtoDAsync ", 4096 * (device + 1), " sixteen letters! stream ", 70 + device)),
              1 + device);
  }
  EXPECT_EQ(calls("cuModuleLoadData"), 2);
  EXPECT_EQ(fake->current.at(std::this_thread::get_id()), reinterpret_cast<void*>(100));
}

TEST_F(RawKernelTest, Variables) {
  const auto all = source({"saxpy"});
  all->set_variable(0, "weights", "sixteen letters!", 16, false);
  EXPECT_EQ(fake->calls.back(), "cuMemcpyHtoDAsync 4096 sixteen letters! stream 0");
  all->set_variable(0, "weights", reinterpret_cast<void*>(512), 16, true);
  EXPECT_EQ(fake->calls.back(), "cuMemcpyDtoDAsync 4096 512 16 stream 0");
  EXPECT_EQ(error_of([&] { all->set_variable(0, "weights", "", 12, false); }),
            "test.cu: the variable 'weights' has 16 bytes and is given 12; give as many");
  EXPECT_EQ(error_of([&] { all->set_variable(0, "ns::weight", "", 12, false); }),
            "test.cu: there is no variable 'ns::weight'; declare it __constant__ or __device__ outside of "
            "functions, use it "
            "in a kernel, and name it with its namespaces");
  fake->capturing = 1;
  EXPECT_EQ(error_of([&] { all->set_variable(0, "weights", "", 16, false); }),
            "test.cu: the variable 'weights' is set while its stream is captured, and replays would not set "
            "it; set it "
            "before the capture");
}

TEST(KernelsIn, FindsDeclaredNames) {
  EXPECT_EQ(
      kernels_in(
          "__global__ void a(int);\n"
          "template <class T>\n__global__ __launch_bounds__(256, (1 + 2)) void\nb (T x) {}\n"
          "static __global__ __cluster_dims__(2, 1, 1) void c(float*) { f(3); }\n"
          "/* __global__ void d() */ const char* s = \"__global__ void e()\"; __global__ void a(int) {}"),
      (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(kernels_in("__global__"), std::vector<std::string>());
}

}  // namespace
}  // namespace tile
