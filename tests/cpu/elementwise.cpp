// Tests every elementwise row: each lane, repetition of operands and shape, compared with one lane at a time.
#include <set>

#include "lanes.h"
#include "reference.h"

namespace tile::cpu::testing {
namespace {

struct Row {
  std::string_view name;
  int operands;
  DTypeSet dtypes;
  bool predicate, exact;
  double low, high, ulp;
};
constexpr bool exact(std::string_view traits) {
  return traits.starts_with("EXACT") || traits.starts_with("DIRECTED");
}
#define ROW(name, n, set, traits, low, high, ulp) \
  {#name, n, dtypes::set, false, exact(#traits), low, high, ulp},
#define UNARY(N, D, E, T, R, low, high, ulp, doc) ROW(N, 1, D, T, low, high, ulp)
#define BINARY(N, D, E, T, R, low, high, ulp, doc) ROW(N, 2, D, T, low, high, ulp)
#define TERNARY(N, D, E, T, R, low, high, ulp, doc) ROW(N, 3, D, T, low, high, ulp)
#define TEST_ROW(N, n, D, low, high) {#N, n, dtypes::D, true, true, low, high, 0},
#define PREDICATE(N, D, E, T, R, low, high, ulp, doc) TEST_ROW(N, 2, D, low, high)
#define UNARY_PREDICATE(N, D, E, T, R, low, high, ulp, doc) TEST_ROW(N, 1, D, low, high)
const Row rows[] = {
#include "prims/elementwise/all.def"
    {"to_bool", 1, dtypes::numbers, true, true, -2, 2, 0},
#define DIRECTED_CASTS(mode)                                        \
  {"f32" mode, 1, DTypeSet{DType::f64}, false, true, -4, 4, 0},     \
      {"f16" mode, 1, dtypes::single, false, true, -1e-4, 1e-4, 0}, \
      {"bf16" mode, 1, dtypes::single, false, true, -4, 4, 0},      \
      {"tf32" mode, 1, dtypes::single, false, true, -4, 4, 0},
    DIRECTED_CASTS("_rz") DIRECTED_CASTS("_rm")
        DIRECTED_CASTS("_rp"){"f32_ra", 1, DTypeSet{DType::f64}, false, true, -4, 4, 0},
    {"f16_ra", 1, dtypes::single, false, true, -1e-4, 1e-4, 0},
    {"tf32_ra", 1, dtypes::single, false, true, -4, 4, 0},
    // Results that are rounded to 16 bits: 2^-16, which is 128 to 256 units in the last place.
    {"exp.approximate", 1, DTypeSet{DType::f32}, false, false, -87, 87, 128},
    {"sigmoid.approximate", 1, DTypeSet{DType::f32}, false, false, -87, 87, 128},
    {"tanh.approximate", 1, DTypeSet{DType::f32}, false, false, -10, 10, 128},
    {"silu.approximate", 1, DTypeSet{DType::f32}, false, false, -87, 87, 128},
};

template <class T>
constexpr DType dtype_of(Lane lane) {
  for (int d = 0; d < dtype_count; ++d)
    if (lane_of(static_cast<DType>(d)) == lane && stored_as_lane(static_cast<DType>(d)) &&
        static_cast<DType>(d) != DType::boolean)
      return static_cast<DType>(d);
  return DType::f32;
}

template <class T>
bool agrees(const Row& row, T got, T x, T y, T z) {
  if constexpr (std::is_integral_v<T>) {
    return got == static_cast<T>(integer_reference(row.name, x, y, sizeof(T) * 8));
  } else {
    if (row.name == "fma") return ulps<T, T>(got, std::fma(x, y, z)) == 0;
    if (row.exact) {
      const T want = float_reference<T>(row.name, x, y, z);
      if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
      const bool either_zero = row.name.starts_with("minimum") || row.name.starts_with("maximum");
      return got == want && (either_zero || std::signbit(got) == std::signbit(want));
    }
    using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;
    return ulps<T, Wide>(got, float_reference<Wide>(row.name.substr(0, row.name.find('.')), x, y, z)) <=
           row.ulp;
  }
}
template <class T>
uint8_t predicate(const Row& row, T x, T y) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<uint8_t>(integer_reference(row.name, x, y, 64));
  else
    return static_cast<uint8_t>(float_reference<T>(row.name, x, y, T(0)));
}

// Runs one call; operand k repeats along columns if bit k of `repeats` is set, and along rows if bit k of
// `row_repeats` is.
template <class T, class Out, class Check>
void run(const Row& row, ChunkFunction function, unsigned repeats, unsigned row_repeats, int64_t r,
         int64_t cols, Values<T>& values, Check check) {
  static Arena arenas[4];
  std::vector<Rows<T>> in;
  Chunk chunk{r, cols, nullptr, 0, {}, {}};
  for (int k = 0; k < row.operands; ++k) {
    in.emplace_back(arenas[k], r, repeats >> k & 1 ? 1 : cols, k);
    if (row_repeats >> k & 1) {
      in[k] = Rows<T>(arenas[k], r > 0, in[k].cols, 0);
      in[k].stride = 0;
    }
    for (int64_t i = 0; i < (row_repeats >> k & 1 ? std::min<int64_t>(r, 1) : r); ++i)
      for (int64_t c = 0; c < in[k].cols; ++c) in[k].set(i, c, values.next());
    chunk.in[k] = in[k].data;
    chunk.in_row[k] = in[k].stride;
  }
  Rows<Out> out(arenas[3], r, cols, 5);
  chunk.out = out.data;
  chunk.out_row = out.stride;
  function(chunk);
  ASSERT_TRUE(out.padding_untouched(r)) << row.name;
  for (int64_t i = 0; i < r; ++i)
    for (int64_t c = 0; c < cols; ++c) {
      T x[3] = {};
      for (int k = 0; k < row.operands; ++k) x[k] = in[k].get(i, repeats >> k & 1 ? 0 : c);
      ASSERT_TRUE(check(out.get(i, c), x[0], x[1], x[2]))
          << row.name << " lane " << static_cast<int>(sizeof(T)) << " repeats " << repeats << " at " << i
          << ", " << c << " of " << r << " x " << cols << ": " << +x[0] << ", " << +x[1] << ", " << +x[2]
          << " gives " << +out.get(i, c);
    }
}

template <class T>
void test_row(const Row& row, Lane lane, const Tables& from) {
  const ElementwiseRow* found = find_elementwise(row.name, lane, from);
  // bool and u8 share a lane.
  const bool takes =
      row.dtypes.has(dtype_of<T>(lane)) || (lane == Lane::u8 && row.dtypes.has(DType::boolean));
  if (!takes) {
    EXPECT_EQ(found, nullptr) << row.name;
    return;
  }
  ASSERT_NE(found, nullptr) << row.name;
  Values<T> values(row.low, row.high, row.exact);
  for (unsigned repeats = 0; repeats < 8; ++repeats) {
    const bool exists = repeats == 0 || repeats + 1 < (1u << row.operands);
    ASSERT_EQ(found->variants[repeats] != nullptr, exists) << row.name << repeats;
    if (!exists) continue;
    for (int64_t r : row_counts)
      for (int64_t cols : column_counts) {
        const unsigned row_repeats = static_cast<unsigned>(cols) / 3 % 8 & ((1u << row.operands) - 1);
        if (row.predicate)
          run<T, uint8_t>(row, found->variants[repeats], repeats, row_repeats, r, cols, values,
                          [&](uint8_t got, T x, T y, T) { return got == predicate(row, x, y); });
        else
          run<T, T>(row, found->variants[repeats], repeats, row_repeats, r, cols, values,
                    [&](T got, T x, T y, T z) { return agrees(row, got, x, y, z); });
        if (::testing::Test::HasFatalFailure()) return;
      }
  }
}

class Elementwise : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(, Elementwise, ::testing::ValuesIn(machine_isas()),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(Elementwise, EveryRowAndLane) {
  const Tables& from = tables(GetParam());
  std::set<std::string_view> names;
  for (const Row& row : rows) {
    names.insert(row.name);
    for (int lane = 0; lane < lane_count; ++lane)
      visit(static_cast<Lane>(lane),
            [&](auto t) { test_row<decltype(t)>(row, static_cast<Lane>(lane), from); });
  }
  for (const ElementwiseRow& row : from.elementwise)
    EXPECT_TRUE(names.count(row.name) || row.name == "where" ||
                row.name.starts_with("random_") ||    // see random.cpp
                row.name.find('(') != row.name.npos)  // see pairs.cpp
        << row.name << " has no test";
}

TEST_P(Elementwise, Where) {
  Arena condition_arena, arenas[3];
  for (int lane = 0; lane < lane_count; ++lane)
    visit(static_cast<Lane>(lane), [&](auto t) {
      using T = decltype(t);
      const ElementwiseRow* row = find_elementwise("where", static_cast<Lane>(lane), tables(GetParam()));
      ASSERT_NE(row, nullptr);
      Values<T> values(-4, 4, true);
      for (unsigned repeats = 0; repeats < 7; ++repeats)
        for (int64_t r : row_counts)
          for (int64_t cols : column_counts) {
            auto width = [&](int k) { return repeats >> k & 1 ? 1 : cols; };
            Rows<uint8_t> condition(condition_arena, r, width(0), 3);
            Rows<T> x(arenas[0], r, width(1), 1), y(arenas[1], r, width(2), 0), out(arenas[2], r, cols, 2);
            for (int64_t i = 0; i < r; ++i) {
              for (int64_t c = 0; c < width(0); ++c) condition.set(i, c, (i * 5 + c * 7) % 3 == 0);
              for (int64_t c = 0; c < width(1); ++c) x.set(i, c, values.next());
              for (int64_t c = 0; c < width(2); ++c) y.set(i, c, values.next());
            }
            row->variants[repeats]({r,
                                    cols,
                                    out.data,
                                    out.stride,
                                    {condition.data, x.data, y.data},
                                    {condition.stride, x.stride, y.stride}});
            ASSERT_TRUE(out.padding_untouched(r));
            for (int64_t i = 0; i < r; ++i)
              for (int64_t c = 0; c < cols; ++c) {
                const bool yes = condition.get(i, width(0) == 1 ? 0 : c);
                const char* want = yes ? x.at(i, width(1) == 1 ? 0 : c) : y.at(i, width(2) == 1 ? 0 : c);
                ASSERT_EQ(std::memcmp(out.at(i, c), want, sizeof(T)), 0)
                    << lane << " " << repeats << " " << cols;
              }
          }
    });
}

TEST_P(Elementwise, ResultMayReplaceAnOperand) {
  const ElementwiseRow* row = find_elementwise("sub", Lane::f32, tables(GetParam()));
  Arena arena;
  for (int64_t cols : column_counts)
    for (int64_t pad : {0, 1}) {
      Rows<float> x(arena, 3, cols, pad);
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t c = 0; c < cols; ++c) x.set(r, c, static_cast<float>(r * 1000 + c));
      const float one = 1;
      row->variants[2](
          {3, cols, x.data, x.stride, {x.data, reinterpret_cast<const char*>(&one)}, {x.stride, 0}});
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t c = 0; c < cols; ++c)
          ASSERT_EQ(x.get(r, c), static_cast<float>(r * 1000 + c - 1)) << cols;
    }
}

TEST_P(Elementwise, FindsByDType) {
  const Tables& from = tables(GetParam());
  EXPECT_EQ(find_elementwise("logical_not", Lane::u8, from)->name, "logical_not");
  EXPECT_EQ(find_elementwise("exp", Lane::f32, from)->lane, Lane::f32);
  EXPECT_EQ(find_elementwise("no_such_row", Lane::f32, from), nullptr);
}

}  // namespace
}  // namespace tile::cpu::testing
