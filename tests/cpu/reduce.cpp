// Tests every reduction: lanes, shapes, strides, NaN and the identities.
#include "lanes.h"

namespace tile::cpu::testing {
namespace {

class Reduce : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(, Reduce, ::testing::ValuesIn(machine_isas()),
                         [](const auto& info) { return std::string(name(info.param)); });

// The reference: in T for integers (wrapping) and max/min, in long double for sums and products.
template <class T>
struct Accumulator {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, long double, uint64_t>;
  std::string_view name;
  Sum sum = 0, product = 1;
  long double size = 0;  // sum of magnitudes
  T extreme{};
  bool any = false;
  void add(T x) {
    sum += static_cast<Sum>(x);
    product *= static_cast<Sum>(x);
    size += std::fabs(static_cast<long double>(x));
    if (x != x) return;
    if (!any || (name == "reduce_max" ? x > extreme : x < extreme)) extreme = x;
    any = true;
  }
  bool agrees(T got, T identity) const {
    constexpr bool floating = std::is_floating_point_v<T>;
    if (name == "reduce_max" || name == "reduce_min") {
      if (any) return got == extreme;
      return floating ? got != got : got == identity;
    }
    const Sum want = name == "reduce_sum" ? sum : product;
    if constexpr (!floating) return got == static_cast<T>(want);
    const long double bound = (name == "reduce_sum" ? size : std::fabs(static_cast<long double>(want))) * 64;
    return std::fabs(static_cast<long double>(got) - static_cast<long double>(want)) <=
           bound * std::numeric_limits<T>::epsilon();
  }
};

template <class T>
T next_value(std::string_view name, Values<T>& values) {
  return name == "reduce_prod" && std::is_floating_point_v<T> ? static_cast<T>(values.next() * 0.05 + 1)
                                                              : values.next();
}

template <class T>
void test_row(std::string_view name, const ReduceRow& row) {
  Arena arenas[2];
  const bool order = name == "reduce_max" || name == "reduce_min";
  Values<T> values(-4, 4, order || std::is_integral_v<T>);
  T identity;
  row.identity(reinterpret_cast<char*>(&identity), 1);
  for (int64_t rows : {0, 1, 2, 5})
    for (int64_t cols : column_counts) {
      Rows<T> x(arenas[0], rows, cols, 1);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) x.set(r, c, next_value(name, values));
      // Runs twice to check that accumulators are kept.
      Rows<T> out(arenas[1], rows, 1, 2);
      for (int64_t r = 0; r < rows; ++r) row.identity(out.at(r, 0), 1);
      const Chunk by_columns{rows, cols, out.data, out.stride, {x.data}, {x.stride}};
      row.columns(by_columns);
      row.columns(by_columns);
      ASSERT_TRUE(out.padding_untouched(rows));
      for (int64_t r = 0; r < rows; ++r) {
        Accumulator<T> want{name};
        for (int64_t c = 0; c < 2 * cols; ++c) want.add(x.get(r, c % cols));
        ASSERT_TRUE(want.agrees(out.get(r, 0), identity))
            << name << " columns " << cols << ": " << +out.get(r, 0);
      }
      for (bool into_one : {true, false}) {
        const int64_t out_rows = into_one ? std::min<int64_t>(rows, 1) : rows;
        Rows<T> sums(arenas[1], out_rows, cols, 3);
        for (int64_t r = 0; r < out_rows; ++r) row.identity(sums.at(r, 0), cols);
        row.rows({rows, cols, sums.data, into_one ? 0 : sums.stride, {x.data}, {x.stride}});
        ASSERT_TRUE(sums.padding_untouched(out_rows));
        for (int64_t c = 0; c < cols; ++c)
          for (int64_t o = 0; o < out_rows; ++o) {
            Accumulator<T> want{name};
            for (int64_t r = 0; r < rows; ++r)
              if (into_one || r == o) want.add(x.get(r, c));
            ASSERT_TRUE(want.agrees(sums.get(o, c), identity)) << name << " rows " << rows << " at " << c;
          }
      }
      if (cols == 0 || rows == 0) continue;
      Accumulator<T> want{name};
      const T value = next_value(name, values);
      for (int i = 0; i < 5; ++i) want.add(value);
      T weighed[2] = {value, value};
      row.weigh(reinterpret_cast<char*>(weighed), 1, 5);
      ASSERT_TRUE(want.agrees(weighed[0], identity)) << name << " of " << +value << " gives " << +weighed[0];
      EXPECT_EQ(std::memcmp(&weighed[1], &value, sizeof value), 0);
      row.weigh(reinterpret_cast<char*>(weighed), 1, 0);
      EXPECT_EQ(std::memcmp(&weighed[0], &identity, sizeof identity), 0);
    }
}

TEST_P(Reduce, NumbersOfEveryLane) {
  for (std::string_view name : {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"})
    for (int lane = 0; lane < lane_count; ++lane) {
      const ReduceRow* row = find_reduce(name, static_cast<Lane>(lane), tables(GetParam()));
      ASSERT_NE(row, nullptr) << name;
      visit(static_cast<Lane>(lane), [&](auto t) { test_row<decltype(t)>(name, *row); });
    }
}

TEST_P(Reduce, AnyAndAll) {
  const ReduceRow* any = find_reduce("reduce_any", Lane::u8, tables(GetParam()));
  const ReduceRow* all = find_reduce("reduce_all", Lane::u8, tables(GetParam()));
  ASSERT_TRUE(any && all);
  for (int64_t cols : column_counts)
    for (int64_t odd_one = -1; odd_one < cols; ++odd_one)
      for (uint8_t usual : {0, 1}) {
        std::vector<uint8_t> x(static_cast<size_t>(cols), usual);
        if (odd_one >= 0) x[static_cast<size_t>(odd_one)] ^= 1;
        char found[2];
        any->identity(&found[0], 1);
        all->identity(&found[1], 1);
        Chunk chunk{1, cols, &found[0], 0, {reinterpret_cast<const char*>(x.data())}, {0}};
        any->columns(chunk);
        chunk.out = &found[1];
        all->columns(chunk);
        EXPECT_EQ(found[0], usual ? cols > (odd_one >= 0) : odd_one >= 0) << cols;
        EXPECT_EQ(found[1], cols == 0 || (usual ? odd_one < 0 : cols == 1 && odd_one == 0)) << cols;
      }
}

// NaN is skipped at every position; if all values are NaN the result is NaN, and -inf among NaN gives -inf.
TEST_P(Reduce, NaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  for (std::string_view name : {"reduce_max", "reduce_min"}) {
    const ReduceRow* row = find_reduce(name, Lane::f32, tables(GetParam()));
    const float worst = name == "reduce_max" ? -infinity : infinity;
    for (int64_t cols : {1, 5, 8, 40, 100})
      for (int64_t at = -1; at < cols; ++at)
        for (float value : {worst, 1.f, -1.f}) {
          std::vector<float> x(static_cast<size_t>(cols), nan);
          if (at >= 0) x[static_cast<size_t>(at)] = value;
          float out;
          row->identity(reinterpret_cast<char*>(&out), 1);
          row->columns(
              {1, cols, reinterpret_cast<char*>(&out), 0, {reinterpret_cast<const char*>(x.data())}, {0}});
          EXPECT_TRUE(at < 0 ? std::isnan(out) : out == value)
              << name << " " << cols << " " << at << " " << out;
        }
  }
}

}  // namespace
}  // namespace tile::cpu::testing
