// Tests loads, stores, fills and roundings of every dtype with all strides that have their own code path.
#include "ir/constant.h"
#include "lanes.h"

namespace tile::cpu::testing {
namespace {

class Move : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(, Move, ::testing::ValuesIn(machine_isas()),
                         [](const auto& info) { return std::string(name(info.param)); });

struct Layout {
  const char* name;
  int64_t row, column;  // in elements
};
std::vector<Layout> layouts(int64_t rows, int64_t cols) {
  return {{"dense", cols, 1},       {"rows apart", cols + 3, 1}, {"transposed", 1, rows + 2},
          {"strided", 3 * cols, 3}, {"both", 2, 2 * rows + 1},   {"one row", 0, 1},
          {"one column", 1, 0},     {"one element", 0, 0},       {"backwards", -cols, -1}};
}
const int64_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 17, 33};

// Returns the value of an element's bits in a floating dtype narrower than f64.
double decode(DType dtype, uint32_t bits) {
  auto small = [&](int exponent_bits, int mantissa_bits, bool infinity) -> double {
    const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    const int exponent = static_cast<int>(bits >> mantissa_bits) & top;
    const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    const double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
    if (infinity && exponent == top)
      return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
    if (!infinity && exponent == top && mantissa == (1u << mantissa_bits) - 1) return std::nan("");
    const double whole = exponent == 0 ? mantissa : mantissa + (1u << mantissa_bits);
    return sign * std::ldexp(whole, std::max(exponent, 1) - bias - mantissa_bits);
  };
  switch (dtype) {
    case DType::f8e4m3:
      return small(4, 3, false);
    case DType::f8e5m2:
      return small(5, 2, true);
    case DType::f16:
      return small(5, 10, true);
    case DType::bf16:
      return small(8, 7, true);
    default:
      return small(8, 23, true);
  }
}
bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

struct Case {
  DType dtype;
  int64_t rows, cols;
  Layout layout;
  int64_t bytes() const { return info(dtype).bytes; }
  int64_t lane() const { return lane_bytes(lane_of(dtype)); }
  int64_t row() const { return layout.row * bytes(); }
  int64_t column() const { return layout.column * bytes(); }
  // The offset of the lowest address, and the total bytes.
  int64_t first() const {
    return std::min<int64_t>(0, (rows - 1) * row()) + std::min<int64_t>(0, (cols - 1) * column());
  }
  int64_t span() const {
    return rows * cols == 0 ? 0 : std::abs((rows - 1) * row()) + std::abs((cols - 1) * column()) + bytes();
  }
};
template <class F>
void each_case(F f) {
  for (int d = 0; d < dtype_count; ++d)
    for (int64_t rows : sizes)
      for (int64_t cols : sizes)
        for (const Layout& layout : layouts(rows, cols)) f(Case{static_cast<DType>(d), rows, cols, layout});
}
void random_bytes(char* p, int64_t n, DType dtype) {
  static std::mt19937 random(3);
  for (int64_t i = 0; i < n; ++i) p[i] = static_cast<char>(dtype == DType::boolean ? random() % 2 : random());
}
bool converts(DType dtype) { return !stored_as_lane(dtype); }

TEST_P(Move, Load) {
  Arena memory, lanes;
  each_case([&](const Case& k) {
    char* lowest = memory.last(k.span());
    random_bytes(lowest, k.span(), k.dtype);
    const char* origin = lowest - k.first();
    const int64_t lane_row = (k.cols + 1) * k.lane();
    char* out = lanes.last(k.rows == 0 ? 0 : (k.rows - 1) * lane_row + k.cols * k.lane());
    tables(GetParam())
        .move.data[static_cast<int>(k.dtype)]
        .load(origin, k.row(), k.column(), out, lane_row, k.rows, k.cols);
    for (int64_t r = 0; r < k.rows; ++r) {
      for (int64_t c = 0; c < k.cols; ++c) {
        const char* element = origin + r * k.row() + c * k.column();
        const char* lane = out + r * lane_row + c * k.lane();
        bool right;
        if (converts(k.dtype)) {
          uint32_t bits = 0;
          std::memcpy(&bits, element, static_cast<size_t>(k.bytes()));
          right = same(round_to(k.dtype, decode(k.dtype, bits)), read<float>(lane));
        } else {
          right = std::memcmp(element, lane, static_cast<size_t>(k.lane())) == 0;
        }
        ASSERT_TRUE(right) << info(k.dtype).name << " " << k.layout.name << " " << k.rows << " x " << k.cols
                           << " at " << r << ", " << c;
      }
      if (r + 1 < k.rows) {
        ASSERT_TRUE(poisoned(out + r * lane_row + k.cols * k.lane(), out + (r + 1) * lane_row))
            << info(k.dtype).name;
      }
    }
  });
}

TEST_P(Move, Store) {
  Arena memory, lanes;
  Values<float> values(-300, 300, true);
  each_case([&](const Case& k) {
    if ((k.layout.row == 0 && k.rows > 1) || (k.layout.column == 0 && k.cols > 1))
      return;  // elements overlap
    char* lowest = memory.last(k.span());
    char* origin = lowest - k.first();
    const int64_t lane_row = (k.cols + 1) * k.lane();
    const int64_t lane_bytes = k.rows == 0 ? 0 : (k.rows - 1) * lane_row + k.cols * k.lane();
    char* in = lanes.last(lane_bytes);
    random_bytes(in, lane_bytes, k.dtype);
    if (converts(k.dtype))
      for (int64_t i = 0; i + 4 <= lane_bytes; i += 4) write(in + i, values.next());
    tables(GetParam())
        .move.data[static_cast<int>(k.dtype)]
        .store(origin, k.row(), k.column(), in, lane_row, k.rows, k.cols);
    std::vector<bool> written(static_cast<size_t>(k.span()));
    for (int64_t r = 0; r < k.rows; ++r)
      for (int64_t c = 0; c < k.cols; ++c) {
        const char* element = origin + r * k.row() + c * k.column();
        const char* lane = in + r * lane_row + c * k.lane();
        for (int64_t b = 0; b < k.bytes(); ++b) written[static_cast<size_t>(element - lowest + b)] = true;
        bool right;
        if (converts(k.dtype)) {
          uint32_t bits = 0;
          std::memcpy(&bits, element, static_cast<size_t>(k.bytes()));
          right = same(round_to(k.dtype, read<float>(lane)), decode(k.dtype, bits));
        } else {
          right = std::memcmp(element, lane, static_cast<size_t>(k.lane())) == 0;
        }
        ASSERT_TRUE(right) << info(k.dtype).name << " " << k.layout.name << " " << k.rows << " x " << k.cols
                           << " at " << r << ", " << c;
      }
    for (int64_t b = 0; b < k.span(); ++b) {
      if (!written[static_cast<size_t>(b)]) {
        ASSERT_EQ(lowest[b], Arena::poison) << info(k.dtype).name << " " << k.layout.name;
      }
    }
  });
}

TEST_P(Move, RoundsAsAStoreAndALoad) {
  Arena arenas[2];
  for (int d = 0; d < dtype_count; ++d) {
    const DType dtype = static_cast<DType>(d);
    const MoveRow& row = tables(GetParam()).move.data[d];
    EXPECT_EQ(row.dtype, dtype);
    ASSERT_EQ(row.round != nullptr, converts(dtype)) << info(dtype).name;
    if (!row.round) continue;
    for (double size : {1e-42, 1e-39, 1e-7, 1e-4, 0.02, 1.0, 500.0, 6e4, 7e4, 3.4e38}) {
      Values<float> values(-size, size, size == 1);
      for (int64_t cols : column_counts) {
        Rows<float> x(arenas[0], 2, cols, 1), out(arenas[1], 2, cols, 1);
        for (int64_t r = 0; r < 2; ++r)
          for (int64_t c = 0; c < cols; ++c) x.set(r, c, values.next());
        row.round({2, cols, out.data, out.stride, {x.data}, {x.stride}});
        ASSERT_TRUE(out.padding_untouched(2));
        for (int64_t r = 0; r < 2; ++r)
          for (int64_t c = 0; c < cols; ++c)
            ASSERT_TRUE(same(round_to(dtype, x.get(r, c)), out.get(r, c)))
                << info(dtype).name << " " << x.get(r, c) << " gives " << out.get(r, c);
      }
    }
  }
}

TEST_P(Move, Fill) {
  for (int d = 0; d < dtype_count; ++d) {
    const DType dtype = static_cast<DType>(d);
    for (double value : {0.0, 1.0, -1.0, 0.1, -2.7, 300.0, 1e10, -1e30, std::nan(""), 1.0 / 0.0}) {
      for (int64_t count : {0, 1, 33}) {
        visit(lane_of(dtype), [&](auto t) {
          using T = decltype(t);
          std::vector<T> lanes(static_cast<size_t>(count) + 1, T(42));
          tables(GetParam()).move.data[d].fill(reinterpret_cast<char*>(lanes.data()), value, count);
          EXPECT_EQ(lanes.back(), T(42));
          const Constant want = Constant::of(dtype, value);
          for (int64_t i = 0; i < count; ++i) {
            if (is_floating(dtype))
              ASSERT_TRUE(same(static_cast<double>(lanes[static_cast<size_t>(i)]), want.floating))
                  << info(dtype).name;
            else
              ASSERT_EQ(lanes[static_cast<size_t>(i)], static_cast<T>(want.integer))
                  << info(dtype).name << value;
          }
        });
      }
    }
  }
}

}  // namespace
}  // namespace tile::cpu::testing
