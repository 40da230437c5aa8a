// Tests integer operations of the vector layer: wrapping, division that never traps, shifts by any count.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "cpu/isa/probe.h"
#include "cpu/machine_isas.h"

namespace tile::cpu {
namespace {

// Nothing overflows in 128 bits; the result is truncated to T.
using Wide = __int128;

template <class T>
T reference(const std::string& operation, T x, T y) {
  const Wide a = x, b = y;
  const int width = static_cast<int>(sizeof(T)) * 8;
  const Wide quotient = b ? a / b : 0, remainder = b ? a % b : 0;
  const bool uneven = remainder != 0, opposite = (remainder < 0) != (b < 0);
  const std::map<std::string, Wide> results = {
      {"divide_trunc", quotient},
      {"remainder_trunc", remainder},
      {"divide_floor", quotient - (uneven && opposite)},
      {"divide_ceil", quotient + (uneven && !opposite)},
      {"remainder_floor", uneven && opposite ? remainder + b : remainder},
      {"shift_left",
       b < 0 || b >= width ? 0 : static_cast<Wide>(static_cast<unsigned __int128>(a) << static_cast<int>(b))},
      {"shift_right", b < 0 || b >= width ? (a < 0 ? -1 : 0) : a >> static_cast<int>(b)},
      {"min", a < b ? a : b},
      {"max", a > b ? a : b},
      {"add", a + b},
      {"subtract", a - b},
      {"multiply", static_cast<Wide>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b))},
      {"and", a & b},
      {"or", a | b},
      {"xor", a ^ b},
      {"less", a < b},
      {"select", a >= b ? a : b},
      {"abs", a < 0 ? -a : a},
      {"negative", -a},
  };
  return static_cast<T>(results.at(operation));
}

template <class T>
void check(const char* type, const IntegerList<T>& (*list)(const ProbeTable&)) {
  using L = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           1,
                           2,
                           3,
                           7,
                           static_cast<T>(-1),
                           static_cast<T>(-2),
                           static_cast<T>(-7),
                           L::min(),
                           static_cast<T>(L::min() + 1),
                           L::max(),
                           static_cast<T>(L::max() - 1),
                           sizeof(T) * 8 - 1,
                           sizeof(T) * 8,
                           sizeof(T) * 8 + 1,
                           100};
  std::vector<T> x, y;
  for (T a : values)
    for (T b : values) x.push_back(a), y.push_back(b);
  std::mt19937_64 random(9);
  for (int i = 0; i < 2000; ++i)
    x.push_back(static_cast<T>(random())), y.push_back(static_cast<T>(random() >> random() % 64));
  std::vector<T> got(x.size());
  for (Isa isa : machine_isas()) {
    int probes = 0;
    for (const auto& probe : list(probe_table(isa))) {
      ++probes;
      probe.run(x.data(), y.data(), got.data(), static_cast<long>(x.size()));
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(+got[i], +reference<T>(probe.name, x[i], y[i]))
            << type << " " << probe.name << " of " << +x[i] << ", " << +y[i] << " on " << name(isa);
    }
    EXPECT_EQ(probes, 19);
  }
}

TEST(Integers, EveryOperationOfEveryType) {
  check<int8_t>("i8", [](const ProbeTable& t) -> const IntegerList<int8_t>& { return t.i8; });
  check<int16_t>("i16", [](const ProbeTable& t) -> const IntegerList<int16_t>& { return t.i16; });
  check<int32_t>("i32", [](const ProbeTable& t) -> const IntegerList<int32_t>& { return t.i32; });
  check<int64_t>("i64", [](const ProbeTable& t) -> const IntegerList<int64_t>& { return t.i64; });
  check<uint8_t>("u8", [](const ProbeTable& t) -> const IntegerList<uint8_t>& { return t.u8; });
  check<uint16_t>("u16", [](const ProbeTable& t) -> const IntegerList<uint16_t>& { return t.u16; });
  check<uint32_t>("u32", [](const ProbeTable& t) -> const IntegerList<uint32_t>& { return t.u32; });
  check<uint64_t>("u64", [](const ProbeTable& t) -> const IntegerList<uint64_t>& { return t.u64; });
}

}  // namespace
}  // namespace tile::cpu
