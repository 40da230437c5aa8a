// Tests the tensor maps of launches over a fake driver: when they are encoded, and what a kernel is given.
#include "runtime/tensor_maps.h"

#include <cstring>
#include <numeric>
#include <thread>

#include "cuda/emitter.h"
#include "cuda/lowering_rule.h"
#include "ir/primitive.h"
#include "runtime/cuda_kernel_test.h"

namespace tile {
namespace {

// Takes two maps of an array: one of its rows, one of boxes.
const Register mapped_{{.name = "test_mapped",
                        .operands = 1,
                        .traits = {.writes = true},
                        .infer = [](const Op&) { return std::vector<Type>(); },
                        .doc = "Takes tensor maps of an array."}};
void emit_mapped(cuda::Emitter& emitter, const Op& op) {
  const auto& arguments = emitter.function().body().arguments;
  const auto parameter =
      static_cast<int>(std::find(arguments.begin(), arguments.end(), op.operands[0]) - arguments.begin());
  const int unit = emitter.facts(op.operands[0]).unit;
  const std::string rows = emitter.tensor_map({parameter, unit, {1, 64}, 0}),
                    boxes = emitter.tensor_map({parameter, unit, {8, 32}, 128});
  emitter.line(op, str("prefetch_map(", rows, "); prefetch_map(", boxes, ");"));
}
const cuda::AddLoweringRule mapped_rule_{{.name = "test_mapped", .emit = emit_mapped}};

class TensorMapsTest : public CudaKernelTest {
 protected:
  TensorMapsTest() {
    for (ArrayArgument* array : {&a, &b}) {
      array->device = DeviceKind::cuda;
      array->rank = 2;
      array->sizes[0] = 100, array->sizes[1] = 256;
      array->strides[0] = 256, array->strides[1] = 1;
    }
    a.data = reinterpret_cast<void*>(4096), b.data = reinterpret_cast<void*>(8192);
    Function function = parse(R"(kernel copy(%i: i32, %a: array<f32,2>, %b: array<f32,2>) {
  test_mapped %b
  test_mapped %a
  test_mapped %b
})");
    for (const size_t array : {1, 2}) function.attributes().set(str("array.", array, ".unit"), int64_t{1});
    kernel = std::make_unique<CudaKernel>(std::move(function), KernelName{"copy", {"copy.cpp", 3}}, *driver,
                                          compiler);
  }
  void launch() {
    const ArgumentRef arguments[] = {i, a, b};
    kernel->run({1, 1, 1}, arguments);
  }
  // Returns the numbers of the maps that the last launch passed, in the order in which they were encoded.
  std::vector<uint64_t> passed() const {
    std::vector<uint64_t> numbers;
    for (size_t map = 3; map < 7; ++map) {
      numbers.push_back(0);
      std::memcpy(&numbers.back(), fake->parameters.at(map).data() + 8, 8);
    }
    return numbers;
  }
  ArrayArgument a, b;
  std::unique_ptr<CudaKernel> kernel;
};

TEST_F(TensorMapsTest, AreParametersBehindTheArguments) {
  launch();
  const cuda::Program& program = kernel->on(0).code->program;
  EXPECT_EQ(program.tensor_maps,
            (std::vector<cuda::TensorMapSpec>{
                {2, 1, {1, 64}, 0}, {2, 1, {8, 32}, 128}, {1, 1, {1, 64}, 0}, {1, 1, {8, 32}, 128}}));
  EXPECT_EQ(program.parameters, cuda::parameters_of(3, false, 4, false, false, true));
  EXPECT_NE(program.source.find(
                "(i32 v0, ArrayParameter<f32, 2> p1, ArrayParameter<f32, 2> p2, const TILE_CONSTANT "
                "TensorMap m0, const TILE_CONSTANT TensorMap m1, const TILE_CONSTANT TensorMap m2, "
                "const TILE_CONSTANT TensorMap m3, u32 starts_early) {\n"),
            std::string::npos)
      << program.source;
  EXPECT_NE(program.source.find("#include \"cuda/device/tensor_copies.cuh\"\n"), std::string::npos);
}

TEST_F(TensorMapsTest, AreEncodedAgainIfAnArrayChanges) {
  fake->parameter_bytes = {4, 32, 32, 128, 128, 128, 128, 4};
  launch();
  EXPECT_EQ(count("cuTensorMapEncodeTiled"), 4);
  EXPECT_EQ(passed(), (std::vector<uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(fake->parameters.at(7), std::string("\1\0\0\0", 4));
  const std::string first = " at 8192 sizes 256 100 strides 1024 box ",
                    steps = " steps 1 1 interleave 0 swizzle ";
  EXPECT_EQ(std::count(fake->calls.begin(), fake->calls.end(),
                       "cuTensorMapEncodeTiled type 7" + first + "64 1" + steps + "0 promotion 3 fill 0"),
            1);
  EXPECT_EQ(std::count(fake->calls.begin(), fake->calls.end(),
                       "cuTensorMapEncodeTiled type 7" + first + "32 8" + steps + "3 promotion 3 fill 0"),
            1);
  fake->calls.clear();
  launch();
  EXPECT_EQ(fake->calls.size(), 1u);  // the launch
  EXPECT_EQ(passed(), (std::vector<uint64_t>{1, 2, 3, 4}));
  uint64_t encoded = 4;
  for (const auto& change : std::vector<std::function<void()>>{
           [&] { a.data = reinterpret_cast<void*>(4096 + 64); }, [&] { b.sizes[0] = 99; },
           [&] { b.sizes[1] = 255; }, [&] { a.strides[0] = 512; }}) {
    change();
    for (int round = 0; round < 2; ++round) {
      launch();
      EXPECT_EQ(passed(), (std::vector<uint64_t>{encoded + 1, encoded + 2, encoded + 3, encoded + 4}));
    }
    encoded += 4;
  }
  EXPECT_EQ(fake->encoded, encoded);
}

TEST_F(TensorMapsTest, OfTheLastEightLaunchesAreKept) {
  const auto launch_at = [&](uint64_t address) {
    const uint64_t before = fake->encoded;
    a.data = reinterpret_cast<void*>(address * 16);
    launch();
    return fake->encoded - before;
  };
  for (uint64_t n = 0; n < 8; ++n) EXPECT_EQ(launch_at(n), 4u);
  for (const uint64_t n : {3, 7, 0, 5, 0}) EXPECT_EQ(launch_at(n), 0u);
  EXPECT_EQ(launch_at(8), 4u);  // overwrites the first
  for (uint64_t n = 1; n < 9; ++n) EXPECT_EQ(launch_at(n), 0u);
  EXPECT_EQ(launch_at(0), 4u);
  EXPECT_EQ(launch_at(2), 0u);
  EXPECT_EQ(launch_at(1), 4u);
}

TEST_F(TensorMapsTest, AreEncodedForEachDevice) {
  for (int round = 0; round < 2; ++round)
    for (const int device : {0, 1}) {
      a.device_index = b.device_index = device;
      launch();
    }
  EXPECT_EQ(fake->encoded, 8u);
}

TEST_F(TensorMapsTest, AnErrorNamesTheKernelAndIsNotKept) {
  const auto launch_error = [&] { return error_of([&] { launch(); }); };
  b.strides[0] = 0;
  const std::string expanded =
      "copy.cpp:3: copy: tensor map of array 2, from the innermost axis on of extents [256, 100], strides "
      "[4, 0] in "
      "bytes and boxes [64, 1], with a swizzle of 0 bytes: the 100 elements along an axis are one, because "
      "its "
      "stride is 0; pass a contiguous copy";
  EXPECT_EQ(launch_error(), expanded);
  EXPECT_EQ(launch_error(), expanded);
  b.strides[0] = 256;
  EXPECT_EQ(launch_error(), "no error");
}

TEST_F(TensorMapsTest, ComeFromAnyThread) {
  TensorMaps maps({{0, 1, {8, 32}, 128}});
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t n = 0; n < wrong.size(); ++n)
    threads.emplace_back([&, n] {
      ArrayArgument array = a;
      const ArgumentRef arguments[] = {array};
      for (uint64_t round = 0; round < 2000; ++round) {
        const uint64_t address = (round * (n + 1) % 12 + 1) * 16;
        array.data = reinterpret_cast<void*>(address);
        TensorMap map;
        maps.write(*driver, {.kernel = "copy"}, arguments, &map);
        wrong[n] += map.words[0] != address;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::accumulate(wrong.begin(), wrong.end(), 0), 0);
}

TEST(TensorMapShape, HasTheUnitAxisFirst) {
  ArrayArgument array{.dtype = DType::bf16, .rank = 4};
  array.sizes = {2, 3, 40, 5};
  array.strides = {1000, 300, 1, 60};
  const TensorMapShape shape = shape_of({0, 2, {1, 2, 32, 4}, 64}, array);
  EXPECT_EQ(shape.type, TensorMapType::bf16);
  EXPECT_EQ(shape.rank, 4);
  EXPECT_EQ(shape.sizes, (std::array<int64_t, 5>{40, 5, 3, 2}));
  EXPECT_EQ(shape.strides, (std::array<int64_t, 5>{2, 120, 600, 2000}));
  EXPECT_EQ(shape.box, (std::array<int, 5>{32, 4, 2, 1}));
  EXPECT_EQ(shape.swizzle, 64);
}

// The address of element i of a slice that ends at e: the strides times the coordinates, modulo 2^64.
TEST(TensorMapShape, HasTwoDimensionsMoreWhereAnAxisIsSliced) {
  ArrayArgument array{.dtype = DType::bf16, .rank = 4};
  array.sizes = {1, 3, 40, 64};
  array.strides = {0, 64, 192, 1};
  const cuda::TensorMapSpec map{.unit = 3, .box = {0, 1, 16, 64}, .swizzle = 128, .sliced = 2};
  TensorMapShape shape = shape_of(map, array);
  EXPECT_NO_THROW(check_tensor_map(shape, "k", 0));
  EXPECT_EQ(shape.rank, 5);
  const int64_t extent = int64_t{1} << 30, outer = (int64_t{1} << 35) - 384;
  EXPECT_EQ(shape.sizes, (std::array<int64_t, 5>{64, extent, 3, 2 * extent - 1, 2 * extent - 1}));
  EXPECT_EQ(shape.strides, (std::array<int64_t, 5>{2, 384, 128, 384, outer}));
  EXPECT_EQ(shape.box, (std::array<int, 5>{64, 16, 1, 1, 1}));
  for (const int64_t end : {1, 7, 40})
    for (const int64_t i : {int64_t{0}, end - 1}) {
      const int64_t at[] = {i - end + extent, end, extent};
      uint64_t address = 0;
      for (size_t n = 0; n < 3; ++n)
        address += static_cast<uint64_t>(at[n]) * static_cast<uint64_t>(shape.strides[n == 0 ? 1 : n + 2]);
      EXPECT_EQ(address, static_cast<uint64_t>(i * 384));
      EXPECT_LT(at[0], shape.sizes[1]);
    }
  array.sizes[2] = 1, array.strides[2] = 5;  // never used by an array, but by a map
  shape = shape_of(map, array);
  EXPECT_EQ(shape.strides[1], 16);
  EXPECT_NO_THROW(check_tensor_map(shape, "k", 0));
}

TEST(TensorMapShape, HasATypeOfTheSameSize) {
  for (int n = 0; n < dtype_count; ++n) {
    ArrayArgument array{.dtype = static_cast<DType>(n), .rank = 1};
    array.sizes[0] = array.strides[0] = 1;
    const TensorMapShape shape = shape_of({0, 0, {16}, 0}, array);
    EXPECT_EQ(element_bytes(shape.type), info(array.dtype).bytes) << info(array.dtype).name;
  }
}

TEST(TensorMapShape, RoundsWhereTheMapSaysSo) {
  ArrayArgument array{.dtype = DType::f32, .rank = 1};
  array.sizes[0] = array.strides[0] = 1;
  EXPECT_EQ(shape_of({0, 0, {16}, 0}, array).type, TensorMapType::f32);
  EXPECT_EQ(shape_of({0, 0, {16}, 0, true}, array).type, TensorMapType::tf32);
}

}  // namespace
}  // namespace tile
