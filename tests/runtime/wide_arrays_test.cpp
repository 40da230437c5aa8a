// Tests arrays whose elements i32 cannot count: their part of the cache key, and kernels that accept them.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "error_text.h"
#include "ir/print.h"
#include "runtime/array_key.h"
#include "runtime/cuda_parameters.h"
#include "runtime/kernel.h"
#include "runtime/text_kernel.h"
#include "tile.h"

namespace tile {
namespace {

constexpr int64_t most = 2147483647;

ArrayArgument array(std::vector<int64_t> sizes, std::vector<int64_t> strides, void* data = nullptr) {
  ArrayArgument argument;
  argument.data = data;
  argument.rank = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), argument.sizes.begin());
  std::copy(strides.begin(), strides.end(), argument.strides.begin());
  return argument;
}

TEST(WideArrays, HaveALongAxis) {
  EXPECT_FALSE(has_wide_extents(array({most, most}, {0, 0})));
  EXPECT_TRUE(has_wide_extents(array({1, most + 1}, {0, 0})));
  EXPECT_TRUE(has_wide_extents(array({int64_t{1} << 40, 0}, {0, 0})));
  EXPECT_FALSE(has_wide_extents(array({}, {})));
}

TEST(WideArrays, FarElementsAreThoseThatNoI32Counts) {
  EXPECT_FALSE(has_far_elements(array({}, {})));
  EXPECT_FALSE(has_far_elements(array({most}, {1})));
  EXPECT_TRUE(has_far_elements(array({most + 1}, {0})));
  EXPECT_FALSE(has_far_elements(array({1, 4}, {most, 1})));
  EXPECT_TRUE(has_far_elements(array({1, 4}, {most + 1, 1})));  // kernels may read this stride
  EXPECT_TRUE(has_far_elements(array({2, 4}, {-most - 1, 1})));
  EXPECT_TRUE(has_far_elements(array({65536, 65536}, {0, 0})));  // the element count exceeds i32
  EXPECT_FALSE(has_far_elements(array({65536, 32767}, {0, 0})));
  EXPECT_FALSE(has_far_elements(array({3, 1}, {most / 2, 1})));
  EXPECT_TRUE(has_far_elements(array({4, 1}, {most / 2, 1})));
  EXPECT_TRUE(has_far_elements(array({2, 2, 2}, {most / 2, -most / 2, 7})));  // from corner to corner
  EXPECT_FALSE(has_far_elements(array({0, 5}, {5, 1})));
  EXPECT_TRUE(has_far_elements(array({INT64_MAX, INT64_MAX}, {INT64_MAX, INT64_MIN})));
}

TEST(WideArrays, AreAnotherKey) {
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
    ArrayArgument near = array({most}, {2}), wide = array({most + 1}, {2}), other = array({most + 5}, {2});
    near.device = wide.device = other.device = device;
    EXPECT_NE(key_word(near), key_word(wide));
    EXPECT_EQ(key_word(other), key_word(wide));
    Function function("f");
    set_facts(function, 1, near);
    EXPECT_EQ(function.attributes().find("array.1.wide"), nullptr);
    set_facts(function, 1, wide);
    EXPECT_NE(function.attributes().find("array.1.wide"), nullptr);
  }
}

TEST(WideArrays, PassExtentsOf64BitsToAGpu) {
  const CudaParameters layout({Type::array(DType::f32, 2), Type::array(DType::f32, 1)}, {true, false},
                              cuda::parameters_of(2, false, 0, false, false, false));
  EXPECT_EQ(layout.bytes(), 8u + 16 + 16 + 24);
  const ArrayArgument wide = array({most + 9, 3}, {3, 1}), near = array({5}, {1});
  const ArgumentRef arguments[] = {wide, near};
  CudaParameters::Packed packed;
  layout.pack(arguments, {}, packed);
  int64_t words[5];
  std::memcpy(words, packed.pointers[0], sizeof words);
  EXPECT_EQ(words[1], 3);
  EXPECT_EQ(words[3], most + 9);
  EXPECT_EQ(words[4], 3);
  int32_t size;
  std::memcpy(&size, static_cast<char*>(packed.pointers[1]) + 16, sizeof size);
  EXPECT_EQ(size, 5);
}

// Stores the extent, the number of tiles of 16, the last of these, and the elements around the array's end.
void ends_kernel(Array x, Array counts, Array out) {
  Tile n = x.dim(0), tiles = x.tiled_view({16}).num_tiles(0);
  counts.tiled_view({1}).store({0}, n);
  counts.tiled_view({1}).store({1}, tiles);
  out.tiled_view({16}).store({0}, x.tiled_view({16}).load({tiles - 1}));
  out.tiled_view({16}).store({1}, x.slice(0, n - 3, n).tiled_view({16}).load({0}));
  out.tiled_view({16}).store({2}, gather(x, {n - 2 + arange(16, i64)}));
  Tile turns = 0;
  for (Tile i : range(tiles - 2, tiles)) {
    when(i * 16 + 15 < n, [&] { turns += 1; });
    out.tiled_view({16}).store({3 + i - (tiles - 2)}, where(i * 16 + arange(16, i64) < n, 1.0, 0.0));
  }
  counts.tiled_view({1}).store({2}, turns);
}
Kernel ends("ends", ends_kernel, Extents::wide, {"wide.cpp", 7}),
    narrow("narrow", ends_kernel, {"narrow.cpp", 7});

TEST(WideArrays, AreCountedInI64) {
  float value = 3;
  std::vector<int64_t> counts(3);
  std::vector<float> out(5 * 16);
  ArrayArgument to = array({3}, {1}, counts.data());
  to.dtype = DType::i64;
  for (const int64_t size : {int64_t{35}, most + 9, (int64_t{1} << 40) + 5}) {
    std::fill(out.begin(), out.end(), -1.0f);
    ends.launch({1}, array({size}, {0}, &value), to, array({5 * 16}, {1}, out.data()));
    const int64_t tiles = (size + 15) / 16, last = size - (tiles - 1) * 16;
    EXPECT_EQ(counts, (std::vector<int64_t>{size, tiles, last == 16 ? 2 : 1}));
    std::vector<float> expected(5 * 16);
    const auto fill = [&](int row, int64_t count, float with) {
      std::fill_n(expected.begin() + row * 16, count, with);
    };
    fill(0, last, 3), fill(1, 3, 3), fill(2, 2, 3), fill(3, 16, 1), fill(4, last, 1);
    EXPECT_EQ(out, expected) << size;
  }
  // One is for the small array, the other for the large ones.
  EXPECT_EQ(ends.compiled_count(), 2u);
}

TEST(WideArrays, AreRefusedByOtherKernels) {
  EXPECT_EQ(error_of([&] { narrow.launch({1}, array({most + 1}, {0}), array({1}, {1}), array({1}, {1})); }),
            "narrow.cpp:7: launch of narrow: an array extent is 2147483648; the most is 2147483647, view the "
            "array with more axes");
}

TEST(WideArrays, AskTextsForTheDtypeOfExtents) {
  const TextKernel text(R"(kernel k(%x: array<f32,1>, %y: array<i64,1>, %i: i32) {
  %n: i32 = dim %x {axis=0}
  %m: i64 = astype %n {dtype=i64}
  %t: i64[1] = broadcast %m {shape=[1]}
  store %y, %t, %i {steps=[1]}
})");
  std::vector<int64_t> to(1);
  ArrayArgument out = array({1}, {1}, to.data());
  out.dtype = DType::i64;
  text.launch({1}, {array({most}, {0}), out, scalar_argument(0)});
  EXPECT_EQ(to[0], most);
  EXPECT_EQ(error_of([&] {
              text.launch({1}, {array({most + 1}, {0}), out, scalar_argument(0)});
            }),
            "dim: an extent of the array does not fit i32, so each dim of it must be i64; write {axis=0, "
            "dtype=i64}");
}

}  // namespace
}  // namespace tile
