// Launching: kernels are compiled once a key; exact texts of what a launch may not be given.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

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
  EXPECT_EQ(error_of([&] { twice.launch({1}, other, other, 4); }),
            where + "kernels run on CPU tensors only; move its arrays to the CPU");
}

TEST(Launch, TextKernelsCheckTheirArguments) {
  const TextKernel copy(R"(kernel copy(%x: array<f32,1>, %y: array<f32,1>, %i: i32) {
  %t: f32[4] = load %x, %i {pad=0.0, shape=[4], steps=[4]}
  store %y, %t, %i {steps=[4]}
})");
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
