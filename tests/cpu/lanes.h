// Buffers and values for the tests of the function tables.
#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cpu/interpreter/tables.h"
#include "machine_isas.h"

namespace tile::cpu::testing {

inline const int64_t column_counts[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100};
inline const int64_t row_counts[] = {0, 1, 3};

// Calls f(T{}) with a lane's type.
template <class F>
auto visit(Lane lane, F f) {
  switch (lane) {
    case Lane::u8:
      return f(uint8_t{});
    case Lane::i8:
      return f(int8_t{});
    case Lane::i16:
      return f(int16_t{});
    case Lane::i32:
      return f(int32_t{});
    case Lane::i64:
      return f(int64_t{});
    case Lane::u16:
      return f(uint16_t{});
    case Lane::u32:
      return f(uint32_t{});
    case Lane::u64:
      return f(uint64_t{});
    case Lane::f32:
      return f(float{});
    default:
      return f(double{});
  }
}

// Memory that ends at an inaccessible page, so that reading past a row's end crashes.
class Arena {
 public:
  Arena() {
    base_ = static_cast<char*>(
        mmap(nullptr, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + size, page, PROT_NONE);
  }
  ~Arena() { munmap(base_, size + page); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  // Returns its last `bytes` bytes, poisoned.
  char* last(int64_t bytes) {
    EXPECT_LE(bytes, size);
    char* p = base_ + size - bytes;
    std::memset(p, poison, static_cast<size_t>(bytes));
    return p;
  }
  static constexpr char poison = 0x5b;
  static constexpr int64_t size = 1 << 17, page = 4096;

 private:
  char* base_;
};

template <class T>
T read(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <class T>
void write(char* p, T value) {
  std::memcpy(p, &value, sizeof value);
}
inline bool poisoned(const char* begin, const char* end) {
  for (; begin < end; ++begin)
    if (*begin != Arena::poison) return false;
  return true;
}

// Rows of lanes with a stride, or one repeated row or lane.
template <class T>
struct Rows {
  char* data;
  int64_t stride, cols;
  Rows(Arena& arena, int64_t rows, int64_t cols, int64_t pad)
      : stride((cols + pad) * static_cast<int64_t>(sizeof(T))), cols(cols) {
    // The last row has no padding: it ends at the inaccessible page.
    data = arena.last(rows == 0 ? 0 : (rows - 1) * stride + cols * static_cast<int64_t>(sizeof(T)));
  }
  char* at(int64_t r, int64_t c) const { return data + r * stride + c * static_cast<int64_t>(sizeof(T)); }
  T get(int64_t r, int64_t c) const { return read<T>(at(r, c)); }
  void set(int64_t r, int64_t c, T value) { write(at(r, c), value); }
  bool padding_untouched(int64_t rows) const {
    for (int64_t r = 0; r + 1 < rows; ++r)
      if (!poisoned(at(r, cols), at(r + 1, 0))) return false;
    return true;
  }
};

template <class T>
std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>)
    return {
        T(0),           -T(0),          T(1),     T(-1),       T(2.5),   T(-0.5),         L::infinity(),
        -L::infinity(), L::quiet_NaN(), L::max(), L::lowest(), L::min(), L::denorm_min(), -L::denorm_min()};
  else
    return {T(0),
            T(1),
            static_cast<T>(-1),
            T(2),
            static_cast<T>(-2),
            T(7),
            T(8),
            T(31),
            T(32),
            T(63),
            T(64),
            L::max(),
            L::min(),
            static_cast<T>(L::max() - 1),
            static_cast<T>(L::min() + 1)};
}

// Random values from [low, high]; if requested, every third is a special value.
template <class T>
class Values {
 public:
  Values(double low, double high, bool specials) : low_(low), high_(high), specials_(specials) {
    if (std::is_unsigned_v<T>) low_ = std::max(low_, 0.0);
  }
  T next() {
    static const std::vector<T> special = special_values<T>();
    if (specials_ && random_() % 3 == 0) return special[random_() % special.size()];
    return static_cast<T>(std::uniform_real_distribution<double>(low_, high_)(random_));
  }

 private:
  double low_, high_;
  bool specials_;
  std::mt19937_64 random_{7};
};

// |got - want| in units of the last place of T; 0 if both are NaN or equal.
template <class T, class W>
double ulps(T got, W want) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : 1e30;
  if (got == static_cast<T>(want)) return 0;
  if (std::isinf(got) || std::isinf(static_cast<T>(want))) return 1e30;
  const int exponent =
      std::max(want == 0 ? -100000 : std::ilogb(want), std::numeric_limits<T>::min_exponent - 1);
  return static_cast<double>(std::fabs(static_cast<W>(got) - want) /
                             std::ldexp(W(1), exponent - std::numeric_limits<T>::digits + 1));
}

}  // namespace tile::cpu::testing
