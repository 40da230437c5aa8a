// The positions of the largest and the smallest number along an axis.
#include "cpu/interpreter/element_tables.h"
#include "cpu/interpreter/isa/chunk.h"
#include "cpu/vecmath/simd.h"

namespace tile::cpu::TILE_ISA {
namespace {

// `start` is no better than any number.
template <class T>
struct Largest {
  static constexpr T start = std::is_floating_point_v<T> ? static_cast<T>(-__builtin_inf())
                             : std::is_signed_v<T>       ? static_cast<T>(1ull << (sizeof(T) * 8 - 1))
                                                         : T(0);
  template <class V>
  static TILE_INLINE auto better(V x, V than) {
    return x > than;
  }
  static TILE_INLINE Vec<T> best(Vec<T> x, Vec<T> otherwise) { return max(x, otherwise); }
};
template <class T>
struct Smallest {
  static constexpr T start = std::is_floating_point_v<T>
                                 ? static_cast<T>(__builtin_inf())
                                 : static_cast<T>(~static_cast<uint64_t>(Largest<T>::start));
  template <class V>
  static TILE_INLINE auto better(V x, V than) {
    return x < than;
  }
  static TILE_INLINE Vec<T> best(Vec<T> x, Vec<T> otherwise) { return min(x, otherwise); }
};

// Finds the best value, which skips NaN, and then its first place.
template <class Order, class T>
int32_t along_row(const T* x, int64_t n) {
  using V = Vec<T>;
  constexpr int lanes = V::lanes, parts = 4;
  V best[parts];
  for (V& part : best) part = V(Order::start);
  int64_t i = 0;
  for (; i + parts * lanes <= n; i += parts * lanes) {
#pragma GCC unroll 4
    for (int k = 0; k < parts; ++k) best[k] = Order::best(V::load(x + i + k * lanes), best[k]);
  }
  for (; i + lanes <= n; i += lanes) best[0] = Order::best(V::load(x + i), best[0]);
#pragma GCC unroll 3
  for (int k = 1; k < parts; ++k) best[0] = Order::best(best[k], best[0]);
  T value = Order::start, lane[lanes];
  best[0].store(lane);
  for (T y : lane) value = Order::better(y, value) ? y : value;
  for (; i < n; ++i) value = Order::better(x[i], value) ? x[i] : value;

  const V wanted(value);
  int64_t k = 0;
  while (k + lanes <= n && !any(V::load(x + k) == wanted)) k += lanes;
  for (; k < n; ++k)
    if (x[k] == value) return static_cast<int32_t>(k);
  return 0;  // all are NaN
}

// Lanes of less than 32 bits are widened to hold an index too.
template <class T>
using Wide = std::conditional_t<sizeof(T) < 4, int32_t, T>;

template <class T>
TILE_INLINE Vec<Wide<T>> load_wide(const T* x, int64_t n) {
  using V = Vec<Wide<T>>;
  if constexpr (sizeof(T) >= 4) {
    return n == V::lanes ? V::load(x) : V::load(x, n);
  } else {
    Wide<T> lane[V::lanes] = {};
    if (n == V::lanes)
      for (int i = 0; i < V::lanes; ++i) lane[i] = x[i];
    else
      for (int64_t i = 0; i < n; ++i) lane[i] = x[i];
    return V::load(lane);
  }
}

// `width` vectors of columns, the last of which has `n` lanes, keep their best values and where these are.
template <template <class> class Order, class T, int width>
TILE_INLINE void across_rows(const T* x, int64_t size, int64_t inner, int32_t* out, int64_t n) {
  using V = Vec<Wide<T>>;
  using I = typename V::Bits;
  constexpr int lanes = V::lanes;
  const auto load = [&](int64_t k, int w) {
    return load_wide(x + k * inner + w * lanes, w + 1 < width ? lanes : n);
  };
  V best[width];
  I at[width];
  for (int w = 0; w < width; ++w) best[w] = load(0, w), at[w] = I(0);
  for (int64_t k = 1; k < size; ++k) {
    const I here(static_cast<typename I::Element>(k));
#pragma GCC unroll 4
    for (int w = 0; w < width; ++w) {
      const V next = load(k, w);
      auto takes = Order<Wide<T>>::better(next, best[w]);
      if constexpr (std::is_floating_point_v<T>) takes = takes | (is_nan(best[w]) & (next == next));
      best[w] = select(takes, next, best[w]);
      at[w] = select(mask_cast<typename I::Element>(takes), here, at[w]);
    }
  }
  for (int w = 0; w < width; ++w) {
    typename I::Element lane[lanes];
    at[w].store(lane);
    for (int64_t i = 0; i < (w + 1 < width ? lanes : n); ++i)
      out[w * lanes + i] = static_cast<int32_t>(lane[i]);
  }
}

template <template <class> class Order, class T>
void first(const char* lanes, int64_t size, int64_t inner, int32_t* out) {
  const T* x = reinterpret_cast<const T*>(lanes);
  if (inner == 1) {
    *out = along_row<Order<T>>(x, size);
    return;
  }
  constexpr int width = Vec<Wide<T>>::lanes;
  int64_t i = 0;
  for (; i + 4 * width <= inner; i += 4 * width) across_rows<Order, T, 4>(x + i, size, inner, out + i, width);
  for (; i + width <= inner; i += width) across_rows<Order, T, 1>(x + i, size, inner, out + i, width);
  if (i < inner) across_rows<Order, T, 1>(x + i, size, inner, out + i, inner - i);
}

template <class T>
constexpr ArgRow row{first<Largest, T>, first<Smallest, T>};
constexpr ArgRow table[] = {row<uint8_t>,  row<int8_t>,   row<int16_t>,  row<int32_t>, row<int64_t>,
                            row<uint16_t>, row<uint32_t>, row<uint64_t>, row<float>,   row<double>};
static_assert(sizeof(table) / sizeof(ArgRow) == lane_count);

}  // namespace

extern const Span<ArgRow> arg_rows = {table, lane_count};

}  // namespace tile::cpu::TILE_ISA
