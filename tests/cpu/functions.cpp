// Tests the vector functions of csrc/cpu/vecmath against libm in the next wider type, on every instruction
// set of this machine.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cpu/isa/probe.h"
#include "cpu/machine_isas.h"

namespace tile::cpu {
namespace {

// |got - want| in units of the last place of T at want, including subnormals.
template <class T, class Wide>
double ulps(T got, Wide want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : 1e30;
  if (std::isinf(got) && got == static_cast<T>(want)) return 0;
  if (std::isinf(got))
    got = std::copysign(std::numeric_limits<T>::max(), got);  // one unit beyond the largest
  const int exponent = want == 0 ? -100000 : std::ilogb(want);
  const int place = std::max(std::min(exponent, std::numeric_limits<T>::max_exponent - 1),
                             std::numeric_limits<T>::min_exponent - 1) -
                    std::numeric_limits<T>::digits + 1;
  return static_cast<double>(std::fabs((Wide)got - want) / std::ldexp(Wide(1), place));
}

template <class T>
std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  std::vector<T> values;
  for (T v :
       {T(0),         L::denorm_min(), L::min() / 2, L::min(),     L::epsilon(), T(0.25),      T(0.5),
        T(0.625),     T(0.9999999),    T(1),         T(1.0000001), T(1.5),       T(2),         T(2.5),
        T(3),         T(3.5),          T(10),        T(17),        T(20),        T(87.3),      T(88),
        T(88.72),     T(88.73),        T(89),        T(103.9),     T(104),       T(127),       T(128),
        T(149),       T(150),          T(1e4),       T(1.2e4),     T(99999),     T(1e5),       T(100001),
        T(8388607.5), T(8388608),      T(16777216),  T(1e30),      L::max(),     L::infinity()})
    values.insert(values.end(), {v, -v});
  values.push_back(L::quiet_NaN());
  T payload = L::quiet_NaN();
  std::memcpy(&payload,
              sizeof(T) == 4 ? (const void*)"\x01\x00\xc0\x7f" : (const void*)"\x01\0\0\0\0\0\xf8\x7f",
              sizeof(T));
  values.push_back(payload);
  return values;
}
// Special values, bit patterns spread over all of T, and values of ordinary size.
template <class T>
std::vector<T> samples(long patterns, long ordinary) {
  std::vector<T> x = special_values<T>();
  using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const U step = std::numeric_limits<U>::max() / static_cast<U>(patterns) | 1;
  U bits = 0;
  for (long i = 0; i < patterns; ++i, bits += step) {
    T v;
    std::memcpy(&v, &bits, sizeof v);
    x.push_back(v);
  }
  std::mt19937_64 random(1);
  for (double size : {1.0, 10.0, 100.0}) {
    std::uniform_real_distribution<double> uniform(-size, size);
    for (long i = 0; i < ordinary / 3; ++i) x.push_back(static_cast<T>(uniform(random)));
  }
  return x;
}

template <class W>
using Reference = std::function<W(W)>;
template <class W>
std::map<std::string, Reference<W>> references() {
  return {
      {"exp", [](W x) { return std::exp(x); }},
      {"exp2", [](W x) { return std::exp2(x); }},
      {"expm1", [](W x) { return std::expm1(x); }},
      {"sigmoid", [](W x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }},
      {"log", [](W x) { return std::log(x); }},
      {"log2", [](W x) { return std::log2(x); }},
      {"log1p", [](W x) { return std::log1p(x); }},
      {"sin", [](W x) { return std::sin(x); }},
      {"cos", [](W x) { return std::cos(x); }},
      {"tan", [](W x) { return std::tan(x); }},
      {"tanh", [](W x) { return std::tanh(x); }},
      {"one_plus_tanh", [](W x) { return 2 / (1 + std::exp(-2 * x)); }},
      {"sinh", [](W x) { return std::sinh(x); }},
      {"cosh", [](W x) { return std::cosh(x); }},
      {"erf", [](W x) { return std::erf(x); }},
      {"asin", [](W x) { return std::asin(x); }},
      {"acos", [](W x) { return std::acos(x); }},
      {"atan", [](W x) { return std::atan(x); }},
      {"sqrt", [](W x) { return std::sqrt(x); }},
      {"rsqrt", [](W x) { return 1 / std::sqrt(x); }},
      {"round", [](W x) { return std::nearbyint(x); }},
      {"floor", [](W x) { return std::floor(x); }},
      {"ceil", [](W x) { return std::ceil(x); }},
      {"trunc", [](W x) { return std::trunc(x); }},
      {"abs", [](W x) { return std::fabs(x); }},
  };
}
// The largest allowed error in float, in ulp; without fma the trigonometric and pow-like reductions are
// slightly less accurate.
const std::map<std::string, double> float_bounds = {{"exp", 1.05},
                                                    {"exp2", 1.5},
                                                    {"expm1", 2},
                                                    {"sigmoid", 2.5},
                                                    {"log", 1.5},
                                                    {"log2", 2.5},
                                                    {"log1p", 2.5},
                                                    {"sin", 2.5},
                                                    {"cos", 2.5},
                                                    {"tan", 4},
                                                    {"tanh", 1.5},
                                                    {"sinh", 2.5},
                                                    {"one_plus_tanh", 2.5},
                                                    {"cosh", 2.5},
                                                    {"erf", 2.4},
                                                    {"asin", 2.5},
                                                    {"acos", 2.5},
                                                    {"atan", 2.5},
                                                    {"sqrt", 0.5},
                                                    {"rsqrt", 1.5},
                                                    {"round", 0},
                                                    {"floor", 0},
                                                    {"ceil", 0},
                                                    {"trunc", 0},
                                                    {"abs", 0}};

std::string show(double x) {
  char text[64];
  std::snprintf(text, sizeof text, "%.9g (%a)", x, x);
  return text;
}

template <class T, class W>
void check_unary(const std::vector<T>& x, const List<UnaryProbe<T>>& (*list)(const ProbeTable&),
                 const std::function<double(const std::string&)>& bound) {
  const long n = static_cast<long>(x.size());
  const auto table = references<W>();
  std::vector<W> want(x.size());
  std::vector<T> got(x.size());
  for (const auto& [function, reference] : table) {
    for (long i = 0; i < n; ++i) want[i] = reference(static_cast<W>(x[i]));
    for (Isa isa : machine_isas()) {
      for (const auto& probe : list(probe_table(isa))) {
        if (probe.name != function) continue;
        std::fill(got.begin(), got.end(), T(12345));
        probe.run(x.data(), got.data(), n);
        double worst = -1;
        long at = 0;
        for (long i = 0; i < n; ++i) {
          double error = ulps(got[i], want[i]);
          if (got[i] == 0 && want[i] == 0 && std::signbit(got[i]) != std::signbit(want[i])) error = 1e30;
          if (error > worst) worst = error, at = i;
        }
        EXPECT_LE(worst, bound(function)) << function << " on " << name(isa) << " at " << show(x[at]) << ": "
                                          << show(got[at]) << ", not " << show(static_cast<double>(want[at]));
        if (std::getenv("TILE_TEST_SHOW_ULPS"))
          std::printf("%-8s %-16s %zu bytes %8.3f ulp at %s\n", name(isa).data(), probe.name, sizeof(T),
                      worst, show(x[at]).c_str());
      }
    }
  }
}

TEST(Functions, FloatIsWithinItsBound) {
  check_unary<float, double>(
      samples<float>(2'000'003, 1'500'000),
      [](const ProbeTable& t) -> const List<UnaryProbe<float>>& { return t.unary_float; },
      [](const std::string& function) { return float_bounds.at(function); });
}

TEST(Functions, DoubleIsWithinTwoUlp) {
  check_unary<double, long double>(
      samples<double>(100'003, 60'000),
      [](const ProbeTable& t) -> const List<UnaryProbe<double>>& { return t.unary_double; },
      [](const std::string&) { return 2.0; });
}

// The fast forms: absolute error in units of float's epsilon, and the limits.
TEST(Functions, FastForms) {
  const auto x = samples<float>(1'000'003, 900'000);
  const long n = static_cast<long>(x.size());
  std::vector<float> got(x.size());
  for (Isa isa : machine_isas()) {
    for (const auto& probe : probe_table(isa).unary_float) {
      const std::string function = probe.name;
      if (function.find("_fast") == std::string::npos) continue;
      probe.run(x.data(), got.data(), n);
      for (long i = 0; i < n; ++i) {
        const double v = x[i];
        const double want = std::tanh(v), bound = 7;
        ASSERT_LE(ulps(got[i], want), bound)
            << function << " on " << name(isa) << " at " << show(v) << ": " << show(got[i]);
        ASSERT_FALSE(std::fabs(got[i]) > 1) << show(v);
      }
    }
  }
}

template <class T, class W>
void check_binary(const std::string& function, const List<BinaryProbe<T>>& (*list)(const ProbeTable&),
                  const std::vector<T>& x, const std::vector<T>& y, W (*reference)(W, W), double bound) {
  const long n = static_cast<long>(x.size());
  std::vector<T> got(x.size());
  for (Isa isa : machine_isas()) {
    for (const auto& probe : list(probe_table(isa))) {
      if (probe.name != function) continue;
      probe.run(x.data(), y.data(), got.data(), n);
      double worst = -1;
      long at = 0;
      for (long i = 0; i < n; ++i) {
        const W want = reference(x[i], y[i]);
        double error = ulps(got[i], want);
        if (got[i] == 0 && want == 0 && std::signbit(got[i]) != std::signbit(want)) error = 1e30;
        if (error > worst) worst = error, at = i;
      }
      EXPECT_LE(worst, bound) << function << " on " << name(isa) << " at " << show(x[at]) << ", "
                              << show(y[at]) << ": " << show(got[at]) << ", not "
                              << show(static_cast<double>(reference(x[at], y[at])));
      if (std::getenv("TILE_TEST_SHOW_ULPS"))
        std::printf("%-8s %-16s %zu bytes %8.3f ulp at %s, %s\n", name(isa).data(), probe.name, sizeof(T),
                    worst, show(x[at]).c_str(), show(y[at]).c_str());
    }
  }
}
// Every pair of special values, then pairs of samples, for pow also those with finite results.
template <class T>
void pairs(std::vector<T>& x, std::vector<T>& y, long patterns) {
  const auto special = special_values<T>();
  for (T a : special)
    for (T b : special) x.push_back(a), y.push_back(b);
  auto s = samples<T>(patterns, patterns);
  std::mt19937_64 random(2);
  for (T a : s) x.push_back(a), y.push_back(s[random() % s.size()]);
  std::uniform_real_distribution<double> exponent(-150, 150), base(0, 3);
  for (long i = 0; i < patterns; ++i) {
    const double e = exponent(random), b = i % 2 ? base(random) : std::exp2(exponent(random));
    x.push_back(static_cast<T>(b));
    y.push_back(static_cast<T>(e / std::log2(b)));
    x.push_back(static_cast<T>(-b));
    y.push_back(static_cast<T>(std::floor(e / 8)));
  }
}

TEST(Functions, PowAndAtan2) {
  std::vector<float> x, y;
  pairs(x, y, 500'000);
  const auto floats = [](const ProbeTable& t) -> const List<BinaryProbe<float>>& { return t.binary_float; };
  check_binary<float, double>(
      "pow", floats, x, y, [](double a, double b) { return std::pow(a, b); }, 1);
  check_binary<float, double>(
      "atan2", floats, x, y, [](double a, double b) { return std::atan2(a, b); }, 3);
  std::vector<double> u, v;
  pairs(u, v, 30'000);
  const auto doubles = [](const ProbeTable& t) -> const List<BinaryProbe<double>>& {
    return t.binary_double;
  };
  check_binary<double, long double>(
      "pow", doubles, u, v, [](long double a, long double b) { return std::pow(a, b); }, 2);
  check_binary<double, long double>(
      "atan2", doubles, u, v, [](long double a, long double b) { return std::atan2(a, b); }, 2);
}

bool equal_bits(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

// A lane's bits do not depend on other lanes, which may change the code path of the vector.
TEST(Functions, LanesDoNotDependOnTheirNeighbours) {
  const auto x = samples<float>(20'003, 60'000);
  const long n = static_cast<long>(x.size());
  std::vector<float> expected(x.size()), got(x.size());
  for (Isa isa : machine_isas())
    for (const auto& probe : probe_table(isa).unary_float)
      for (float neighbour : {1.f, -95.f, 1e30f, -INFINITY, NAN}) {
        auto y = x;
        for (size_t i = 0; i < y.size(); i += 4) y[i] = neighbour;
        probe.run(x.data(), expected.data(), n);
        probe.run(y.data(), got.data(), n);
        for (size_t i = 0; i < x.size(); ++i)
          ASSERT_TRUE(i % 4 == 0 || equal_bits(got[i], expected[i]))
              << probe.name << " on " << name(isa) << " of " << show(x[i]) << " neighbour "
              << show(neighbour);
      }
}

// Another vector type with the same operations gives the same bits; the fused loop assembler relies on this.
TEST(Functions, AnotherVectorTypeGivesTheSameBits) {
  const auto x = samples<float>(100'003, 90'000);
  std::vector<float> u, v;
  pairs(u, v, 30'000);
  for (Isa isa : machine_isas()) {
    const ProbeTable& table = probe_table(isa);
    std::vector<float> want(x.size()), got(x.size());
    for (const auto& other : table.one_lane)
      for (const auto& probe : table.unary_float) {
        if (std::string(probe.name) != other.name) continue;
        probe.run(x.data(), want.data(), static_cast<long>(x.size()));
        other.run(x.data(), got.data(), static_cast<long>(x.size()));
        for (size_t i = 0; i < x.size(); ++i)
          ASSERT_TRUE(equal_bits(got[i], want[i]))
              << probe.name << " on " << name(isa) << " of " << show(x[i]) << ": " << show(got[i]) << ", not "
              << show(want[i]);
      }
    want.resize(u.size()), got.resize(u.size());
    for (const auto& other : table.one_lane_binary)
      for (const auto& probe : table.binary_float) {
        if (std::string(probe.name) != other.name) continue;
        probe.run(u.data(), v.data(), want.data(), static_cast<long>(u.size()));
        other.run(u.data(), v.data(), got.data(), static_cast<long>(u.size()));
        for (size_t i = 0; i < u.size(); ++i)
          ASSERT_TRUE(equal_bits(got[i], want[i]))
              << probe.name << " on " << name(isa) << " of " << show(u[i]) << ", " << show(v[i]);
      }
  }
}

template <class T>
bool same(T a, T b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}
template <class T>
void check_min_max(const List<BinaryProbe<T>>& (*list)(const ProbeTable&)) {
  std::vector<T> x, y;
  pairs(x, y, 1000);
  std::vector<T> got(x.size());
  for (Isa isa : machine_isas()) {
    for (const auto& probe : list(probe_table(isa))) {
      const std::string function = probe.name;
      const bool less = function.substr(0, 3) == "min";
      if (!less && function.substr(0, 3) != "max") continue;
      probe.run(x.data(), y.data(), got.data(), static_cast<long>(x.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        const T a = x[i], b = y[i], nan = std::numeric_limits<T>::quiet_NaN();
        T want = less ? (a < b ? a : b) : (a > b ? a : b);
        if (function.ends_with("_nan") && (std::isnan(a) || std::isnan(b))) want = nan;
        if (function.ends_with("_number")) want = std::isnan(a) ? b : std::isnan(b) ? a : want;
        ASSERT_TRUE(same(got[i], want)) << function << " on " << name(isa) << " of " << show(a) << ", "
                                        << show(b) << ": " << show(got[i]);
      }
    }
  }
}
TEST(Functions, MinAndMax) {
  check_min_max<float>([](const ProbeTable& t) -> const List<BinaryProbe<float>>& { return t.binary_float; });
  check_min_max<double>(
      [](const ProbeTable& t) -> const List<BinaryProbe<double>>& { return t.binary_double; });
}

}  // namespace
}  // namespace tile::cpu
