// Reductions of chunks: along columns with several accumulators in a fixed order, along rows by whole
// vectors.
#include "cpu/interpreter/isa/chunk.h"
#include "cpu/interpreter/isa/parts.h"
#include "cpu/vecmath/convert.h"

namespace tile::cpu::TILE_ISA {
namespace {

template <class T>
constexpr bool is_float = std::is_floating_point_v<T>;
template <class T>
constexpr T lowest = is_float<T>           ? static_cast<T>(-__builtin_inf())
                     : std::is_signed_v<T> ? static_cast<T>(1ull << (sizeof(T) * 8 - 1))
                                           : T(0);
template <class T>
constexpr T highest = is_float<T> ? static_cast<T>(__builtin_inf())
                                  : static_cast<T>(~static_cast<uint64_t>(lowest<T>));
template <class T>
constexpr T nothing(T otherwise) {  // NaN, which every number replaces
  if constexpr (is_float<T>) return static_cast<T>(__builtin_nan(""));
  return otherwise;
}

// Returns x to the power of `times`, by squaring.
template <class W>
W power(W x, int64_t times) {
  W result = 1;
  for (; times > 0; times >>= 1, x *= x)
    if (times & 1) result *= x;
  return result;
}

// Vector arithmetic wraps. For integer scalars these functions make the sum and the product wrap.
template <class V>
TILE_INLINE V plus(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <class V>
TILE_INLINE V times(V a, V b) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}

// A reduction of T. `combine` is its definition. `quick` is equivalent if the accumulator is not NaN, and
// starts from `start`; `identity` is an accumulator's initial value.
template <class T>
struct Sum {
  static constexpr T start = 0, identity = 0;
  static constexpr bool skips_nan = false;
  template <class V>
  static TILE_INLINE V combine(V a, V x) {
    return plus(a, x);
  }
  template <class V>
  static TILE_INLINE V quick(V a, V x) {
    return plus(a, x);
  }
  static T weigh(T x, int64_t times) {
    if constexpr (is_float<T>)
      return static_cast<T>(static_cast<double>(x) * static_cast<double>(times));
    else
      return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(times));
  }
};
template <class T>
struct Product {
  static constexpr T start = 1, identity = 1;
  static constexpr bool skips_nan = false;
  template <class V>
  static TILE_INLINE V combine(V a, V x) {
    return times(a, x);
  }
  template <class V>
  static TILE_INLINE V quick(V a, V x) {
    return times(a, x);
  }
  static T weigh(T x, int64_t times) {
    using W = std::conditional_t<is_float<T>, double, uint64_t>;
    return static_cast<T>(power(static_cast<W>(x), times));
  }
};
template <class T>
struct Idempotent {
  static constexpr bool skips_nan = is_float<T>;
  static T weigh(T x, int64_t) { return x; }
};
// With AVX-512 +0 is greater than -0, and one instruction orders them, in vectors and in lanes.
template <class T>
constexpr bool orders_zeros = requires(Vec<T> a) {
  greater(a, a);
};
template <class T, bool greatest>
struct Extreme : Idempotent<T> {
  static TILE_INLINE Vec<T> combine(Vec<T> a, Vec<T> x) {
    if constexpr (greatest) return max_number(a, x);
    return min_number(a, x);
  }
  static TILE_INLINE Vec<T> quick(Vec<T> a, Vec<T> x) {
    if constexpr (orders_zeros<T>) return combine(a, x);
    if constexpr (greatest) return max(x, a);
    return min(x, a);
  }
  static TILE_INLINE T combine(T a, T x) { return x != x ? a : quick(a, x); }
  static TILE_INLINE T quick(T a, T x) {
    if constexpr (orders_zeros<T>) return combine(Vec<T>(a), Vec<T>(x))[0];
    return (greatest ? a > x : a < x) ? a : x;
  }
};
template <class T>
struct Max : Extreme<T, true> {
  static constexpr T start = lowest<T>, identity = nothing(start);
};
template <class T>
struct Min : Extreme<T, false> {
  static constexpr T start = highest<T>, identity = nothing(start);
};
// For bool lanes.
template <class T>
struct Any : Idempotent<T> {
  static constexpr T start = 0, identity = 0;
  template <class V>
  static TILE_INLINE V combine(V a, V x) {
    return a | x;
  }
  template <class V>
  static TILE_INLINE V quick(V a, V x) {
    return a | x;
  }
};
template <class T>
struct All : Idempotent<T> {
  static constexpr T start = 1, identity = 1;
  template <class V>
  static TILE_INLINE V combine(V a, V x) {
    return a & x;
  }
  template <class V>
  static TILE_INLINE V quick(V a, V x) {
    return a & x;
  }
};

template <class T>
bool all_nan(const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (x[i] == x[i]) return false;
  return true;
}

// The number of vectors that a row is summed in. It is higher if vectors have few lanes, because sums of few
// parts have larger rounding errors.
constexpr int parts = vector_bytes == 16 ? 8 : 4;
// Adjacent parts are combined first.
template <class V, class F>
TILE_INLINE V join(V (&acc)[parts], F combine) {
#pragma GCC unroll 3
  for (int step = 1; step < parts; step *= 2) {
#pragma GCC unroll 4
    for (int k = 0; k < parts; k += 2 * step) acc[k] = combine(acc[k], acc[k + step]);
  }
  return acc[0];
}

template <class Op, class T>
TILE_INLINE T reduce_row(const T* x, int64_t n) {
  using V = Vec<T>;
  constexpr int lanes = V::lanes;
  V acc[parts];
  for (V& part : acc) part = V(Op::start);
  int64_t i = 0;
  for (; i + parts * lanes <= n; i += parts * lanes) {
#pragma GCC unroll 8
    for (int k = 0; k < parts; ++k) acc[k] = Op::quick(acc[k], V::load(x + i + k * lanes));
  }
  for (int k = 0; i + lanes <= n; i += lanes, ++k) acc[k] = Op::quick(acc[k], V::load(x + i));
  if (i < n) {
    const V last = select(V::iota() < V(static_cast<T>(n - i)), V::load(x + i, n - i), V(Op::start));
    acc[parts - 1] = Op::quick(acc[parts - 1], last);
  }
  const V all = join(acc, [](V a, V b) { return Op::quick(a, b); });
  return reduce(all, [](T a, T b) { return static_cast<T>(Op::quick(a, b)); });
}

template <class Op, class T>
void columns(const Chunk& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const T* x = reinterpret_cast<const T*>(c.in[0] + r * c.in_row[0]);
    T* out = reinterpret_cast<T*>(c.out + r * c.out_row);
    const T value = reduce_row<Op>(x, c.cols);
    if constexpr (Op::skips_nan)
      if (value == Op::start && all_nan(x, c.cols)) continue;
    *out = static_cast<T>(Op::combine(*out, value));
  }
}

template <class Op>
struct Combine {
  template <class V>
  TILE_INLINE V operator()(V a, V x) const {
    return Op::combine(a, x);
  }
};
template <class Op, class T>
constexpr GroupLoop combine_group = vector_group<Combine<Op>, T, 2, 2>;

// Keeps `width` vectors of accumulators in registers over the rows. The rows are combined before the result,
// so that sums of many rows are sums of partial sums.
template <class Op, class T, int width>
TILE_INLINE void rows_into_one(const Chunk& c, int64_t at) {
  constexpr int lanes = Vec<T>::lanes;
  const auto load = [&](int64_t r, int k) {
    return Vec<T>::load(reinterpret_cast<const T*>(c.in[0] + r * c.in_row[0]) + at + k * lanes);
  };
  Vec<T> acc[width];
  for (int k = 0; k < width; ++k) acc[k] = load(0, k);
  for (int64_t r = 1; r < c.rows; ++r)
    for (int k = 0; k < width; ++k) acc[k] = Op::combine(acc[k], load(r, k));
  T* out = reinterpret_cast<T*>(c.out) + at;
  for (int k = 0; k < width; ++k) Op::combine(Vec<T>::load(out + k * lanes), acc[k]).store(out + k * lanes);
}

template <class Op, class T>
void rows(const Chunk& c) {
  if (c.out_row != 0 || c.rows <= 1) {
    Chunk both = c;
    both.in[1] = c.in[0];
    both.in_row[1] = c.in_row[0];
    both.in[0] = c.out;
    both.in_row[0] = c.out_row;
    run_chunk(both, combine_group<Op, T>, 0);
    return;
  }
  constexpr int lanes = Vec<T>::lanes;
  int64_t i = 0;
  for (; i + 4 * lanes <= c.cols; i += 4 * lanes) rows_into_one<Op, T, 4>(c, i);
  for (; i + lanes <= c.cols; i += lanes) rows_into_one<Op, T, 1>(c, i);
  for (; i < c.cols; ++i) {
    T* out = reinterpret_cast<T*>(c.out) + i;
    for (int64_t r = 0; r < c.rows; ++r)
      *out = static_cast<T>(Op::combine(*out, reinterpret_cast<const T*>(c.in[0] + r * c.in_row[0])[i]));
  }
}

template <class T>
void product_columns(const Chunk& c) {
  using V = Vec<T>;
  constexpr int lanes = V::lanes;
  for (int64_t r = 0; r < c.rows; ++r) {
    const T* x = reinterpret_cast<const T*>(c.in[0] + r * c.in_row[0]);
    const T* y = reinterpret_cast<const T*>(c.in[1] + r * c.in_row[1]);
    V acc[parts];
    for (V& part : acc) part = V(T(0));
    int64_t i = 0;
    for (; i + parts * lanes <= c.cols; i += parts * lanes) {
#pragma GCC unroll 8
      for (int k = 0; k < parts; ++k)
        acc[k] = fma_once(V::load(x + i + k * lanes), V::load(y + i + k * lanes), acc[k]);
    }
    for (int k = 0; i + lanes <= c.cols; i += lanes, ++k)
      acc[k] = fma_once(V::load(x + i), V::load(y + i), acc[k]);
    if (i < c.cols)
      acc[parts - 1] = fma_once(V::load(x + i, c.cols - i), V::load(y + i, c.cols - i), acc[parts - 1]);
    *reinterpret_cast<T*>(c.out + r * c.out_row) +=
        reduce(join(acc, [](V a, V b) { return a + b; }), [](T a, T b) { return a + b; });
  }
}
template <class T, int width>
TILE_INLINE void products_into_one(const Chunk& c, int64_t at) {
  constexpr int lanes = Vec<T>::lanes;
  const auto load = [&](int operand, int64_t r, int k) {
    return Vec<T>::load(reinterpret_cast<const T*>(c.in[operand] + r * c.in_row[operand]) + at + k * lanes);
  };
  Vec<T> acc[width];
  for (int k = 0; k < width; ++k) acc[k] = load(0, 0, k) * load(1, 0, k);
  for (int64_t r = 1; r < c.rows; ++r)
    for (int k = 0; k < width; ++k) acc[k] = fma_once(load(0, r, k), load(1, r, k), acc[k]);
  T* out = reinterpret_cast<T*>(c.out) + at;
  for (int k = 0; k < width; ++k) (Vec<T>::load(out + k * lanes) + acc[k]).store(out + k * lanes);
}
template <class T>
void product_rows(const Chunk& c) {
  using V = Vec<T>;
  constexpr int lanes = V::lanes;
  int64_t into_one = 0;
  if (c.out_row == 0 && c.rows > 1) {
    for (; into_one + 4 * lanes <= c.cols; into_one += 4 * lanes) products_into_one<T, 4>(c, into_one);
    for (; into_one + lanes <= c.cols; into_one += lanes) products_into_one<T, 1>(c, into_one);
  }
  for (int64_t r = 0; r < c.rows; ++r) {
    const T* x = reinterpret_cast<const T*>(c.in[0] + r * c.in_row[0]);
    const T* y = reinterpret_cast<const T*>(c.in[1] + r * c.in_row[1]);
    T* out = reinterpret_cast<T*>(c.out + r * c.out_row);
    int64_t i = into_one;
    for (; i + lanes <= c.cols; i += lanes)
      fma_once(V::load(x + i), V::load(y + i), V::load(out + i)).store(out + i);
    if (i < c.cols) {
      const int64_t rest = c.cols - i;
      fma_once(V::load(x + i, rest), V::load(y + i, rest), V::load(out + i, rest)).store(out + i, rest);
    }
  }
}

template <class Op, class T>
void identity(char* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(out)[i] = Op::identity;
}
template <class Op, class T>
void weigh(char* out, int64_t count, int64_t times) {
  T* x = reinterpret_cast<T*>(out);
  for (int64_t i = 0; i < count; ++i) x[i] = times == 0 ? Op::identity : Op::weigh(x[i], times);
}

template <template <class> class Op, class T>
constexpr ReduceRow row(std::string_view name) {
  ChunkFunction by_column = nullptr, by_row = nullptr;
  if constexpr (std::is_same_v<Op<T>, Sum<T>> && is_float<T>) {
    by_column = product_columns<T>;
    by_row = product_rows<T>;
  }
  return {name,      lane_v<T>, columns<Op<T>, T>,  rows<Op<T>, T>,
          by_column, by_row,    identity<Op<T>, T>, weigh<Op<T>, T>};
}
#define TILE_ROWS(name, Op)                                                                            \
  row<Op, float>(name), row<Op, double>(name), row<Op, int8_t>(name), row<Op, int16_t>(name),          \
      row<Op, int32_t>(name), row<Op, int64_t>(name), row<Op, uint8_t>(name), row<Op, uint16_t>(name), \
      row<Op, uint32_t>(name), row<Op, uint64_t>(name)
constexpr ReduceRow table[] = {TILE_ROWS("reduce_sum", Sum),    TILE_ROWS("reduce_prod", Product),
                               TILE_ROWS("reduce_max", Max),    TILE_ROWS("reduce_min", Min),
                               row<Any, uint8_t>("reduce_any"), row<All, uint8_t>("reduce_all")};
#undef TILE_ROWS

}  // namespace

extern const Span<ReduceRow> reduce_rows = {table, sizeof(table) / sizeof(ReduceRow)};

}  // namespace tile::cpu::TILE_ISA
