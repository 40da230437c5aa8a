// Tests astype between every pair of lanes against constant folding.
#include "ir/constant.h"
#include "lanes.h"

namespace tile::cpu::testing {
namespace {

class Cast : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(, Cast, ::testing::ValuesIn(machine_isas()),
                         [](const auto& info) { return std::string(name(info.param)); });

template <class To, class From>
To convert(From x, Lane to) {
  if constexpr (std::is_integral_v<To>) {
    if constexpr (std::is_integral_v<From>)
      return static_cast<To>(x);
    else
      return static_cast<To>(Constant::of(dtype_of(to), static_cast<double>(x)).integer);
  } else {
    return static_cast<To>(x);
  }
}

TEST_P(Cast, EveryPair) {
  Arena arenas[2];
  for (int f = 0; f < lane_count; ++f)
    for (int t = 0; t < lane_count; ++t) {
      const Lane from = static_cast<Lane>(f), to = static_cast<Lane>(t);
      const CastRow& row = cast_row(from, to, tables(GetParam()));
      ASSERT_TRUE(row.from == from && row.to == to);
      visit(from, [&](auto from_type) {
        visit(to, [&](auto to_type) {
          using From = decltype(from_type);
          using To = decltype(to_type);
          for (double size : {3.0, 200.0, 1e5, 1e10, 1e20}) {
            // Integers of every size; for floats also values beyond the integers.
            const double limit =
                std::is_integral_v<From>
                    ? std::min(size, 0.9 * static_cast<double>(std::numeric_limits<From>::max()))
                    : size;
            Values<From> values(std::is_signed_v<From> ? -limit : 0, limit, true);
            for (int64_t rows : row_counts)
              for (int64_t cols : column_counts)
                for (int repeats : {0, 1}) {
                  const int64_t width = repeats ? 1 : cols;
                  Rows<From> x(arenas[0], rows, width, 2);
                  Rows<To> out(arenas[1], rows, cols, 1);
                  for (int64_t r = 0; r < rows; ++r)
                    for (int64_t c = 0; c < width; ++c) x.set(r, c, values.next());
                  row.variants[repeats]({rows, cols, out.data, out.stride, {x.data}, {x.stride}});
                  ASSERT_TRUE(out.padding_untouched(rows));
                  for (int64_t r = 0; r < rows; ++r)
                    for (int64_t c = 0; c < cols; ++c) {
                      const From value = x.get(r, repeats ? 0 : c);
                      const To got = out.get(r, c), want = convert<To>(value, to);
                      ASSERT_TRUE(got == want || (got != got && want != want))
                          << f << " to " << t << ": " << +value << " gives " << +got << ", not " << +want;
                    }
                }
          }
        });
      });
    }
}

}  // namespace
}  // namespace tile::cpu::testing
