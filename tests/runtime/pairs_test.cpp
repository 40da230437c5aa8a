// Tests launches of kernels whose CTAs are pairs, over a fake driver: the grid, and a device without
// clusters.
#include "dense_arrays.h"
#include "runtime/cuda_kernel_test.h"

namespace tile {
namespace {

class PairsTest : public CudaKernelTest {
 protected:
  PairsTest() {
    ArrayArgument* arrays[] = {&a, &b, &c};
    for (ArrayArgument* array : arrays) {
      array->device = DeviceKind::cuda, array->dtype = DType::bf16, array->rank = 2;
      array->sizes[0] = 4096, array->sizes[1] = 4096;
      array->strides[0] = 4096, array->strides[1] = 1;
      array->data = reinterpret_cast<void*>(4096);
    }
    Function function = parse(R"(kernel copy(%a: array<bf16,2>, %b: array<bf16,2>, %c: array<bf16,2>) {
  %i: i32 = bid {axis=0}
  %j: i32 = bid {axis=1}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %t: i32 = constant {dtype=i32, value=64}
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[128,256] = broadcast %z {shape=[128,256]}
  %r: f32[128,256] = for %0, %t, %1, %zs (%k: i32, %acc: f32[128,256]) {
    %x: bf16[128,64] = load %a, %i, %k {pad=0.0, shape=[128,64], steps=[128,64]}
    %y: bf16[64,256] = load %b, %k, %j {pad=0.0, shape=[64,256], steps=[64,256]}
    %m: f32[128,256] = mma %x, %y, %acc
    yield %m
  }
  %o: bf16[128,256] = astype %r {dtype=bf16}
  store %c, %o, %i, %j {steps=[128,256]}
})");
    make_dense(function, 3);
    function.attributes().set("hint.num_ctas", int64_t{2});
    kernel = std::make_unique<CudaKernel>(std::move(function), KernelName{"copy", {"copy.cpp", 3}}, *driver,
                                          compiler);
  }
  // Returns "2 8 1", and behind it the extents of a cluster, if there is one.
  std::string launched(const Blocks& blocks) {
    const ArgumentRef arguments[] = {a, b, c};
    kernel->run(blocks, arguments);
    const std::string& call = fake->calls.back();
    const size_t grid = call.find("grid ") + 5, cluster = call.find(" 4:");
    return call.substr(grid, call.find(" block") - grid) +
           (cluster == std::string::npos ? "" : call.substr(cluster, 8));
  }
  ArrayArgument a, b, c;
  std::unique_ptr<CudaKernel> kernel;
};

// The fake device holds 8 clusters at once.
TEST_F(PairsTest, AsManyRunAsTheDeviceHoldsAtOnce) {
  EXPECT_EQ(launched({32, 16, 1}), "2 8 1 4:2 1 1");
  EXPECT_EQ(launched({3, 3, 1}), "2 6 1 4:2 1 1");
  EXPECT_EQ(launched({1, 5, 1}), "2 5 1 4:2 1 1");
  EXPECT_EQ(launched({5, 1, 1}), "2 3 1 4:2 1 1");
}

TEST_F(PairsTest, ADeviceWithoutRoomForAPairRunsSingleCtas) {
  fake->cluster_blocks = 1;
  EXPECT_EQ(launched({32, 16, 1}), "132 1 1");
  EXPECT_EQ(kernel->on(0).code->program.path, "wgmma");
}

}  // namespace
}  // namespace tile
