// Tests products of bf16 on tile registers, with a software model and, if this machine has it, with AMX,
// against float64: full and partial panels, and operands with NaN and infinity.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cpu/gemm/gemm_table.h"
#include "cpu/isa/tile_twin.h"
#include "cpu/strip.h"
#include "error_text.h"

namespace tile::cpu {
namespace {

constexpr int bf16 = static_cast<int>(DType::bf16), f32 = static_cast<int>(DType::f32);

float widened(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float x;
  std::memcpy(&x, &word, 4);
  return x;
}
uint16_t bits_of(float x) {
  uint32_t word;
  std::memcpy(&word, &x, 4);
  return static_cast<uint16_t>(word >> 16);
}

// Returns the model's kernels, and AMX's if there are some.
std::vector<std::pair<std::string, const GemmKernels*>> all_kernels() {
  std::vector<std::pair<std::string, const GemmKernels*>> all;
  if (!supported(Isa::avx512)) return all;
  if (const GemmKernels* twin = tile_twin(Isa::avx512).kernels) all.push_back({"twin", twin});
  if (const GemmKernels* amx = amx_gemm(Isa::avx512)) all.push_back({"AMX", amx});
  return all;
}

// rows x columns, stored in either order, in bf16 and in f32 with the same values.
struct Operand {
  Operand(long rows, long columns, bool turned, std::mt19937& random) : rows(rows), columns(columns) {
    row_stride = turned ? 1 : columns + 1;
    column_stride = turned ? rows + 3 : 1;
    narrow.resize(static_cast<size_t>((rows - 1) * row_stride + (columns - 1) * column_stride + 1));
    std::normal_distribution<float> normal;
    for (uint16_t& x : narrow) x = bits_of(normal(random));
    widen();
  }
  void widen() {
    wide.clear();
    for (uint16_t x : narrow) wide.push_back(widened(x));
  }
  void set(long row, long column, float x) {
    narrow[static_cast<size_t>(row * row_stride + column * column_stride)] = bits_of(x);
    widen();
  }
  float at(long row, long column) const {
    return wide[static_cast<size_t>(row * row_stride + column * column_stride)];
  }
  MatrixView view(int dtype) const {
    return {dtype == bf16 ? static_cast<const void*>(narrow.data()) : wide.data(), row_stride, column_stride};
  }
  long rows, columns, row_stride, column_stride;
  std::vector<uint16_t> narrow;
  std::vector<float> wide;
};

std::vector<float> blocked(const GemmKernels& g, const Operand& a, const Operand& b, int dtype_a, int dtype_b,
                           std::vector<float> c, long ldc, bool accumulate) {
  const long m = a.rows, k = a.columns, n = b.columns;
  std::vector<float> strip(static_cast<size_t>(g.strip_size(k, n)), std::nanf("")),
      scratch(static_cast<size_t>(g.blocked_scratch_size(m, k)), std::nanf(""));
  pack_strip(g, k, n, b.view(dtype_b), static_cast<DType>(dtype_b), strip.data());
  g.begin();
  g.blocked(m, n, k, a.view(dtype_a), static_cast<DType>(dtype_a), strip.data(), c.data(), ldc, accumulate,
            scratch.data());
  g.end();
  return c;
}

TEST(GemmTiles, AgreeWithFloat64) {
  std::mt19937 random(11);
  for (const auto& [name, kernels] : all_kernels())
    for (long m : {1, 15, 16, 17, 33, 65})
      for (long n : {1, 16, 31, 32, 50})
        for (long k : {1, 2, 31, 32, 33, 64, 301, 1100}) {
          const Operand a(m, k, random() % 2, random), b(k, n, random() % 2, random);
          const bool accumulate = random() % 2;
          const long ldc = n + static_cast<long>(random() % 3);
          std::vector<float> before(static_cast<size_t>(m * ldc));
          for (float& x : before) x = static_cast<float>(random() % 100);
          const std::vector<float> c = blocked(*kernels, a, b, random() % 2 ? bf16 : f32,
                                               random() % 2 ? bf16 : f32, before, ldc, accumulate);
          for (long i = 0; i < m; ++i)
            for (long j = 0; j < ldc; ++j) {
              const size_t at = static_cast<size_t>(i * ldc + j);
              double want = accumulate || j >= n ? before[at] : 0, most = std::abs(want);
              for (long x = 0; x < k && j < n; ++x) {
                const double product = static_cast<double>(a.at(i, x)) * b.at(x, j);
                want += product;
                most += std::abs(product);
              }
              ASSERT_NEAR(c[at], want, 1e-6 * most) << name << " [" << m << " x " << k << "] x [" << k
                                                    << " x " << n << "] at " << i << ", " << j;
            }
        }
}

// NaN and infinity affect their own row or column, from either operand, and padding has no effect.
TEST(GemmTiles, NaNAndInfinityStayInTheirRowsAndColumns) {
  std::mt19937 random(12);
  for (const auto& [name, kernels] : all_kernels())
    for (const float special : {std::nanf(""), std::numeric_limits<float>::infinity()})
      for (const int dtype : {bf16, f32})
        for (const bool turned : {false, true}) {
          Operand a(19, 35, turned, random), b(35, 21, !turned, random);
          a.set(18, 34, special);
          b.set(33, 20, special);
          const std::vector<float> c =
              blocked(*kernels, a, b, dtype, dtype, std::vector<float>(19 * 21), 21, false);
          for (int i = 0; i < 19 * 21; ++i)
            EXPECT_EQ(std::isfinite(c[i]), i / 21 != 18 && i % 21 != 20)
                << name << " " << special << " at " << i;
        }
}

TEST(GemmTiles, SubnormalsCountAsZero) {
  std::mt19937 random(13);
  for (const auto& [name, kernels] : all_kernels()) {
    Operand a(1, 3, false, random), b(3, 1, false, random);
    a.set(0, 0, 0x1p-130f), a.set(0, 1, 3.f), a.set(0, 2, 0x1p-126f);
    b.set(0, 0, 0x1p100f), b.set(1, 0, 0x1p-128f), b.set(2, 0, 0x1p120f);
    EXPECT_EQ(blocked(*kernels, a, b, bf16, bf16, {0.f}, 1, false)[0], 0x1p-6f) << name;
  }
}

TEST(GemmTiles, RegistersAreTakenBeforeTheyAreUsed) {
  const TileTwin& twin = tile_twin(supported(Isa::avx512) ? Isa::avx512 : Isa::baseline);
  if (!twin.kernels) return;
  const int before = twin.faults();
  const std::vector<float> a(static_cast<size_t>(twin.kernels->packed_a_size(1, 1))),
      b(static_cast<size_t>(twin.kernels->packed_b_size(1, 1)));
  float c = 1;
  twin.kernels->begin();
  twin.kernels->packed(1, 1, 1, a.data(), b.data(), &c, 1, false);
  EXPECT_EQ(twin.faults(), before);
  twin.kernels->end();
  twin.kernels->packed(1, 1, 1, a.data(), b.data(), &c, 1, false);
  EXPECT_GT(twin.faults(), before) << "the twin notices";
}

TEST(GemmTiles, TheVariableSwitchesThemOff) {
  EXPECT_FALSE(choose_amx(Isa::avx512, "off"));
  EXPECT_FALSE(choose_amx(Isa::avx2, ""));
  EXPECT_EQ(choose_amx(Isa::avx512, ""), supports_amx());
  if (amx_gemm(Isa::avx512)) EXPECT_TRUE(supports_amx());
  EXPECT_EQ(error_of([] { choose_amx(Isa::avx512, "on"); }),
            "TILE_AMX=on: unknown value; unset TILE_AMX or set it to off");
  std::printf("AMX: %s\n", !supports_amx() ? "this machine does not have it, or its system refuses it"
                           : !uses_amx()   ? "tested here; switched off for operators"
                                           : "tested here, and used by operators");
}

}  // namespace
}  // namespace tile::cpu
