// Tests conversions between element types: every 16- and 8-bit pattern, rounding, saturation and NaN, on
// every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cpu/isa/probe.h"
#include "cpu/machine_isas.h"

namespace tile::cpu {
namespace {

// A small floating-point format: the value of its bits, and the rule for values that are too large.
struct Format {
  const char* name;
  int exponent_bits, mantissa_bits;
  bool has_infinity;  // otherwise only the top pattern is NaN
  int bytes;
};
const Format formats[] = {
    {"f16", 5, 10, true, 2}, {"bf16", 8, 7, true, 2}, {"f8e5m2", 5, 2, true, 1}, {"f8e4m3", 4, 3, false, 1}};

double value_of(const Format& f, uint32_t bits) {
  const uint32_t mantissa = bits & ((1u << f.mantissa_bits) - 1),
                 exponent = bits >> f.mantissa_bits & ((1u << f.exponent_bits) - 1);
  const uint32_t top = (1u << f.exponent_bits) - 1;
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const double sign = bits >> (f.exponent_bits + f.mantissa_bits) & 1 ? -1 : 1;
  if (exponent == top && f.has_infinity) return mantissa ? std::nan("") : sign * INFINITY;
  if (exponent == top && mantissa == (1u << f.mantissa_bits) - 1) return std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - f.mantissa_bits);
  return sign *
         std::ldexp((1 << f.mantissa_bits) + mantissa, static_cast<int>(exponent) - bias - f.mantissa_bits);
}
uint32_t pattern_count(const Format& f) { return 1u << (8 * f.bytes); }

const CastProbe& cast(Isa isa, const std::string& from, const std::string& to) {
  for (const CastProbe& probe : probe_table(isa).casts)
    if (probe.from == from && probe.to == to) return probe;
  ADD_FAILURE() << "no cast from " << from << " to " << to;
  return *probe_table(isa).casts.begin();
}
template <class To, class From>
std::vector<To> run(Isa isa, const char* from, const char* to, const std::vector<From>& x) {
  std::vector<To> out(x.size() + 1, To(99));
  cast(isa, from, to).run(x.data(), out.data(), static_cast<long>(x.size()));
  EXPECT_EQ(out.back(), To(99)) << "wrote beyond the end";
  out.pop_back();
  return out;
}
template <class Small>
std::vector<Small> every_pattern(const Format& f) {
  std::vector<Small> x;
  for (uint32_t i = 0; i < pattern_count(f); ++i) x.push_back(static_cast<Small>(i));
  return x;
}

template <class Small>
void check_to_float(const Format& f) {
  const auto x = every_pattern<Small>(f);
  for (Isa isa : machine_isas()) {
    const auto wide = run<float>(isa, f.name, "f32", x);
    const auto doubles = run<double>(isa, f.name, "f64", x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = value_of(f, x[i]);
      ASSERT_TRUE(wide[i] == want || (std::isnan(wide[i]) && std::isnan(want)))
          << f.name << " " << i << " on " << name(isa) << ": " << wide[i];
      ASSERT_EQ(std::signbit(wide[i]), std::signbit(want) || (std::isnan(want) && i >> (8 * f.bytes - 1)))
          << f.name << " " << i;
      ASSERT_TRUE(doubles[i] == want || (std::isnan(doubles[i]) && std::isnan(want)));
    }
  }
}
TEST(Conversions, EverySmallPatternToFloat) {
  for (const Format& f : formats) f.bytes == 2 ? check_to_float<uint16_t>(f) : check_to_float<uint8_t>(f);
}

// For every value of the format: the value, the midpoints to its neighbours, and the closest floats to these.
std::vector<float> rounding_points(const Format& f) {
  std::vector<float> x = {0.f,  -0.f,  INFINITY, -INFINITY, std::nanf(""), 3e38f,   -3e38f, 1e-45f,
                          1e9f, 470.f, 480.f,    65519.f,   65520.f,       61440.f, 65536.f};
  for (uint32_t i = 0; i + 1 < pattern_count(f) / 2; ++i) {
    const double a = value_of(f, i), b = value_of(f, i + 1);
    if (!std::isfinite(a)) break;
    const double gap = std::isfinite(b) ? b - a : a - value_of(f, i - 1);
    const float middle = static_cast<float>(a + gap / 2);
    for (float v :
         {static_cast<float>(a), middle, std::nextafter(middle, INFINITY), std::nextafter(middle, 0.f)})
      x.insert(x.end(), {v, -v});
  }
  std::mt19937 random(7);
  for (int i = 0; i < 100'000; ++i) {
    const uint32_t bits = random();
    float v;
    std::memcpy(&v, &bits, 4);
    x.push_back(v);
  }
  return x;
}
// Rounds to nearest, ties to even, by bisection over the format's own values.
uint32_t nearest(const Format& f, float x) {
  const uint32_t sign = std::signbit(x) ? pattern_count(f) / 2 : 0;
  const double magnitude = std::fabs(static_cast<double>(x));
  uint32_t low = 0, high = pattern_count(f) / 2 - 1;  // the largest pattern whose value is <= magnitude
  while (!(value_of(f, high) < INFINITY)) --high;
  const uint32_t largest = high;
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (value_of(f, middle) <= magnitude)
      low = middle;
    else
      high = middle - 1;
  }
  const double below = value_of(f, low);
  const double above =
      low == largest ? 2 * value_of(f, largest) - value_of(f, largest - 1) : value_of(f, low + 1);
  const bool up =
      magnitude - below > above - magnitude || (magnitude - below == above - magnitude && low % 2);
  const bool saturates = low == largest && !f.has_infinity;
  return sign | (low + (!saturates && (up || magnitude > above)));
}
template <class Small>
void check_from_float(const Format& f) {
  const auto x = rounding_points(f);
  std::vector<uint32_t> want(x.size());
  for (size_t i = 0; i < x.size(); ++i) want[i] = std::isnan(x[i]) ? 0 : nearest(f, x[i]);
  for (Isa isa : machine_isas()) {
    const auto got = run<Small>(isa, "f32", f.name, x);
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(value_of(f, got[i])))
            << f.name << " on " << name(isa) << ": NaN became " << got[i];
        // Quiet: the first bit of the mantissa.
        ASSERT_TRUE(got[i] >> (f.mantissa_bits - 1) & 1);
        continue;
      }
      ASSERT_EQ(got[i], want[i]) << f.name << " on " << name(isa) << " of " << x[i];
    }
  }
}
TEST(Conversions, FloatToSmallIsNearestEven) {
  for (const Format& f : formats) f.bytes == 2 ? check_from_float<uint16_t>(f) : check_from_float<uint8_t>(f);
}

// Converts to f32 and back, which must keep every bit pattern, signalling NaNs included.
template <class Element>
void check_every_pattern_stays(const Format& f) {
  const auto x = every_pattern<Element>(f);
  for (Isa isa : machine_isas()) {
    const auto back = run<Element>(isa, "f32", f.name, run<float>(isa, f.name, "f32", x));
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(+back[i], +x[i]) << f.name << " on " << name(isa);
  }
}
TEST(Conversions, EveryPatternStays) {
  for (const Format& f : formats)
    f.bytes == 2 ? check_every_pattern_stays<uint16_t>(f) : check_every_pattern_stays<uint8_t>(f);
}

TEST(Conversions, RoundingInPlaceEqualsStoreAndLoad) {
  for (const Format& f : {formats[0], formats[1]}) {
    const auto x = rounding_points(f);
    std::vector<float> got(x.size());
    for (Isa isa : machine_isas()) {
      const auto& table = probe_table(isa);
      (f.name[0] == 'b' ? table.round_through_bf16 : table.round_through_f16)(x.data(), got.data(),
                                                                              static_cast<long>(x.size()));
      const auto want = run<float>(isa, f.name, "f32", run<uint16_t>(isa, "f32", f.name, x));
      ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * 4), 0) << f.name << " on " << name(isa);
    }
  }
}

template <class From, class To>
void check_to_integer(const char* from, const char* to) {
  using L = std::numeric_limits<To>;
  std::vector<From> x = {0,
                         From(-0.0),
                         From(0.9),
                         From(-0.9),
                         From(1.5),
                         From(-1.5),
                         From(127.9),
                         From(128),
                         From(-128.9),
                         From(-129),
                         From(255.5),
                         From(256),
                         From(65535.5),
                         From(2147483647),
                         From(2147483648.),
                         From(-2147483648.),
                         From(-2147483904.),
                         From(4294967296.),
                         From(9.2e18),
                         From(9223372036854775807.),
                         From(-9223372036854775808.),
                         From(1.8e19),
                         From(18446744073709551615.),
                         From(1e30),
                         From(-1e30),
                         From(INFINITY),
                         From(-INFINITY),
                         From(NAN)};
  std::mt19937_64 random(8);
  std::uniform_real_distribution<double> exponent(-3, 66);
  for (int i = 0; i < 2000; ++i)
    x.push_back(static_cast<From>((i % 2 ? 1 : -1) * std::exp2(exponent(random))));
  for (Isa isa : machine_isas()) {
    const auto got = run<To>(isa, from, to, x);
    for (size_t i = 0; i < x.size(); ++i) {
      To want = 0;
      const long double v = std::trunc(static_cast<long double>(x[i]));
      if (std::isnan(x[i]))
        want = 0;
      else if (v >= static_cast<long double>(L::max()))
        want = L::max();
      else if (v <= static_cast<long double>(L::min()))
        want = L::min();
      else
        want = static_cast<To>(v);
      ASSERT_EQ(+got[i], +want) << from << " to " << to << " on " << name(isa) << " of " << x[i];
    }
  }
}
template <class From>
void check_to_integers(const char* from) {
  check_to_integer<From, int8_t>(from, "i8");
  check_to_integer<From, int16_t>(from, "i16");
  check_to_integer<From, int32_t>(from, "i32");
  check_to_integer<From, int64_t>(from, "i64");
  check_to_integer<From, uint8_t>(from, "u8");
  check_to_integer<From, uint16_t>(from, "u16");
  check_to_integer<From, uint32_t>(from, "u32");
  check_to_integer<From, uint64_t>(from, "u64");
}
TEST(Conversions, FloatToIntegerTruncatesAndSaturates) {
  check_to_integers<float>("f32");
  check_to_integers<double>("f64");
}

TEST(Conversions, ToBool) {
  const std::vector<float> x = {0.f, -0.f, 1.f, -2.f, 1e-45f, NAN, INFINITY};
  const std::vector<int64_t> integers = {0, 1, -1, 256, int64_t(1) << 40};
  const std::vector<uint16_t> halves = {0, 0x8000, 0x3c00, 1, 0x7e00};
  for (Isa isa : machine_isas()) {
    EXPECT_EQ(run<uint8_t>(isa, "f32", "bool", x), (std::vector<uint8_t>{0, 0, 1, 1, 1, 1, 1}));
    EXPECT_EQ(run<uint8_t>(isa, "i64", "bool", integers), (std::vector<uint8_t>{0, 1, 1, 1, 1}));
    EXPECT_EQ(run<uint8_t>(isa, "f16", "bool", halves), (std::vector<uint8_t>{0, 0, 1, 1, 1}));
    EXPECT_EQ(run<float>(isa, "bool", "f32", std::vector<uint8_t>{0, 1}), (std::vector<float>{0, 1}));
  }
}

TEST(Conversions, Integers) {
  std::vector<int64_t> x = {0,
                            1,
                            -1,
                            127,
                            128,
                            -129,
                            255,
                            256,
                            65536,
                            int64_t(1) << 31,
                            (int64_t(1) << 32) + 5,
                            (int64_t(1) << 53) + 1,
                            INT64_MIN,
                            INT64_MAX,
                            (int64_t(1) << 24) + 1};
  while (x.size() < 100) x.push_back(static_cast<int64_t>(static_cast<uint64_t>(x[x.size() - 10]) * 7 + 3));
  for (Isa isa : machine_isas()) {
    const auto narrow = run<int8_t>(isa, "i64", "i8", x);
    const auto unsigned_narrow = run<uint32_t>(isa, "i64", "u32", x);
    const auto floats = run<float>(isa, "i64", "f32", x);
    const auto doubles = run<double>(isa, "i64", "f64", x);
    const auto wide = run<int64_t>(isa, "i8", "i64", narrow);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(narrow[i], static_cast<int8_t>(x[i]));
      ASSERT_EQ(unsigned_narrow[i], static_cast<uint32_t>(x[i]));
      ASSERT_EQ(floats[i], static_cast<float>(x[i]));
      ASSERT_EQ(doubles[i], static_cast<double>(x[i]));
      ASSERT_EQ(wide[i], static_cast<int64_t>(narrow[i]));
    }
  }
}

// Every length, so that heads, pairs and tails of the vector loops are covered.
TEST(Conversions, EveryLength) {
  std::vector<float> x;
  for (int i = 0; i < 100; ++i) x.push_back(static_cast<float>(i) * 0.37f - 9);
  for (Isa isa : machine_isas())
    for (size_t n = 0; n < x.size(); ++n) {
      const std::vector<float> head(x.begin(), x.begin() + static_cast<long>(n));
      for (const char* half : {"bf16", "f16"}) {
        const auto small = run<uint16_t>(isa, "f32", half, head);
        const auto back = run<float>(isa, half, "f32", small);
        for (size_t i = 0; i < n; ++i) ASSERT_NEAR(back[i], x[i], 0.13) << n;
      }
    }
}

template <class T>
void check_partial(void (*copy)(const T*, T*, long), Isa isa) {
  const long lanes = probe_table(isa).vector_bytes / static_cast<long>(sizeof(T));
  for (long n = 0; n <= lanes; ++n) {
    const auto x = std::make_unique<T[]>(static_cast<size_t>(n));  // not null if n is 0
    std::vector<T> out(static_cast<size_t>(n) + 3, T(55));
    for (long i = 0; i < n; ++i) x[i] = static_cast<T>(i + 1);
    copy(x.get(), out.data(), n);
    for (long i = 0; i < n + 3; ++i)
      ASSERT_EQ(out[i], i < n ? static_cast<T>(i + 1) : T(55)) << name(isa) << " " << n;
  }
}
TEST(Memory, PartialLoadsAndStores) {
  for (Isa isa : machine_isas()) {
    const auto& table = probe_table(isa);
    check_partial<float>(table.partial_float, isa);
    check_partial<double>(table.partial_double, isa);
    check_partial<int16_t>(table.partial_i16, isa);
    const double x[] = {1, 2, 4, 8, 16, 32, 64, 128};
    EXPECT_EQ(table.reduce_sum(x), (1 << (table.vector_bytes / 8)) - 1);
  }
}

}  // namespace
}  // namespace tile::cpu
