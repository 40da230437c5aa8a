// Tests the position of the largest and the smallest number: every lane and shape, ties, NaN and infinities.
#include "cpu/interpreter/element_tables.h"
#include "lanes.h"

namespace tile::cpu::testing {
namespace {

class Arg : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(, Arg, ::testing::ValuesIn(machine_isas()),
                         [](const auto& info) { return std::string(name(info.param)); });

template <class T>
int32_t first_best(const Rows<T>& x, int64_t size, int64_t column, bool largest) {
  int64_t best = -1;
  for (int64_t k = 0; k < size; ++k) {
    const T next = x.get(k, column);
    if (next != next) continue;
    if (best < 0 || (largest ? next > x.get(best, column) : next < x.get(best, column))) best = k;
  }
  return static_cast<int32_t>(std::max<int64_t>(best, 0));
}

template <class T>
void test_row(const ArgRow& row) {
  Arena arenas[2];
  for (double high : {3.0, 100.0}) {
    Values<T> values(-high, high, true);
    for (int64_t size : {1, 2, 3, 16, 17, 100, 300})
      for (int64_t inner : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100}) {
        if (size * inner > 4000) continue;
        Rows<T> x(arenas[0], size, inner, 0);
        for (int64_t k = 0; k < size; ++k)
          for (int64_t i = 0; i < inner; ++i) x.set(k, i, values.next());
        if constexpr (std::is_floating_point_v<T>)
          for (int64_t k = 0; k < size; ++k) x.set(k, inner / 2, std::numeric_limits<T>::quiet_NaN());
        for (bool largest : {true, false}) {
          Rows<int32_t> out(arenas[1], 1, inner, 0);
          (largest ? row.largest : row.smallest)(x.data, size, inner, reinterpret_cast<int32_t*>(out.data));
          for (int64_t i = 0; i < inner; ++i)
            ASSERT_EQ(out.get(0, i), first_best(x, size, i, largest))
                << size << " rows of " << inner << ", lane " << i << ", largest " << largest;
        }
      }
  }
}

TEST_P(Arg, IsTheFirstOfEquals) {
  for (int lane = 0; lane < lane_count; ++lane)
    visit(static_cast<Lane>(lane), [&](auto t) { test_row<decltype(t)>(arg_rows(GetParam()).data[lane]); });
}

TEST_P(Arg, OfManyRowsOfBytes) {  // more than a byte counts
  std::vector<int8_t> x(1000 * 3, 0);
  x[700 * 3] = 1, x[999 * 3 + 1] = 1, x[300 * 3 + 2] = -1;
  int32_t out[3];
  const ArgRow& row = arg_rows(GetParam()).data[static_cast<int>(Lane::i8)];
  row.largest(reinterpret_cast<const char*>(x.data()), 1000, 3, out);
  EXPECT_EQ(std::vector<int32_t>(out, out + 3), (std::vector<int32_t>{700, 999, 0}));
  row.smallest(reinterpret_cast<const char*>(x.data()), 1000, 3, out);
  EXPECT_EQ(std::vector<int32_t>(out, out + 3), (std::vector<int32_t>{0, 0, 300}));
}

}  // namespace
}  // namespace tile::cpu::testing
