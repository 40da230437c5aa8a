// Tests rows with directed rounding on random bits: every exponent, and cancellation. The rounding mode must
// not leak to other code. Also tests that fma rounds once.
#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <bit>
#include <limits>
#include <random>
#include <string>

#include "cpu/interpreter/tables.h"
#include "machine_isas.h"
#include "reference.h"

namespace tile::cpu::testing {
namespace {

class Directed : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(, Directed, ::testing::ValuesIn(machine_isas()),
                         [](const auto& info) { return std::string(name(info.param)); });

constexpr int64_t count = 4099;

template <class T>
void call(const ElementwiseRow& row, std::vector<T> (&in)[3], std::vector<T>& out) {
  Chunk chunk{1, count, reinterpret_cast<char*>(out.data()), 0, {}, {}};
  for (int k = 0; k < 3; ++k) chunk.in[k] = reinterpret_cast<const char*>(in[k].data());
  row.variants[0](chunk);
}

// The third operand is sometimes close to the product of the others, so that sums cancel. Or the product is a
// midpoint of two numbers, where a third operand far below it decides.
template <class T>
void fill(std::vector<T> (&in)[3], std::mt19937_64& random) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr int digits = std::numeric_limits<T>::digits;
  const auto odd = [&](int bits) {
    return static_cast<T>((random() >> (64 - bits)) | 1 | uint64_t{1} << (bits - 1));
  };
  for (auto& x : in) x.assign(count, 0);
  for (size_t i = 0; i < count; ++i) {
    for (auto& x : in) x[i] = std::bit_cast<T>(static_cast<Bits>(random()));
    if (i % 4 == 1) in[1][i] = std::ldexp(-in[0][i], static_cast<int>(random() % 5) - 2);
    if (i % 4 >= 2) {
      in[0][i] = std::ldexp(static_cast<T>(random() >> 40), static_cast<int>(random() % 60) - 30);
      in[1][i] = std::ldexp(static_cast<T>(random() >> 40), static_cast<int>(random() % 60) - 30);
      in[2][i] = -in[0][i] * in[1][i];
      if (i % 4 == 3) in[2][i] = std::nextafter(in[2][i], T(0));
    }
    if (i % 8 == 4) {
      in[0][i] = odd(digits / 2), in[1][i] = odd(digits - digits / 2 + 1);
      in[2][i] = std::ldexp(T(random() & 1 ? 1 : -1), -static_cast<int>(random() % 80));
    }
  }
}

template <class T>
void test(Isa isa, Lane lane, std::initializer_list<const char*> operations,
          std::initializer_list<const char*> modes = {"_rz", "_rm", "_rp"}) {
  std::mt19937_64 random(11);
  std::vector<T> in[3], out(count);
  for (const char* operation : operations)
    for (const char* mode : modes) {
      const std::string name = std::string(operation) + mode;
      const ElementwiseRow* row = find_elementwise(name, lane, tables(isa));
      ASSERT_NE(row, nullptr) << name;
      fill(in, random);
      call(*row, in, out);
      for (size_t i = 0; i < count; ++i) {
        const T x = in[0][i], y = in[1][i], z = in[2][i], got = out[i];
        const T want = float_reference<T>(name, x, y, z);
        if (std::isnan(want) && std::isnan(got)) continue;
        ASSERT_TRUE(got == want && std::signbit(got) == std::signbit(want))
            << name << std::hexfloat << " of " << x << ", " << y << ", " << z << " gives " << got << ", not "
            << want;
      }
    }
}

TEST_P(Directed, RandomBits) {
  test<float>(GetParam(), Lane::f32, {"add", "sub", "mul", "div", "fma", "sqrt", "f16", "bf16", "tf32"});
  test<double>(GetParam(), Lane::f64, {"add", "sub", "mul", "div", "fma", "sqrt", "f32"});
}

TEST_P(Directed, CastsOfHalvesAway) {
  test<float>(GetParam(), Lane::f32, {"f16", "tf32"}, {"_ra"});
  test<double>(GetParam(), Lane::f64, {"f32"}, {"_ra"});
}

TEST_P(Directed, FmaRoundsOnce) {
  test<float>(GetParam(), Lane::f32, {"fma"}, {""});
  test<double>(GetParam(), Lane::f64, {"fma"}, {""});
}

TEST_P(Directed, TheCallersRoundingAndFlagsStay) {
  std::vector<float> in[3], out(count);
  std::mt19937_64 random(12);
  fill(in, random);
  for (const unsigned control : {0x1f80u, 0x7f80u, 0x9fc0u}) {  // default; toward zero; both flushes
    const unsigned before = _mm_getcsr();
    _mm_setcsr(control);
    call(*find_elementwise("add_rm", Lane::f32, tables(GetParam())), in, out);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(after & ~0x3fu, control & ~0x3fu);
  }
}

}  // namespace
}  // namespace tile::cpu::testing
