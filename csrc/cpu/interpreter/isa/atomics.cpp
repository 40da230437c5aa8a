// Changes of elements by one elementwise primitive, one after another, each atomic on its own.
#include "cpu/interpreter/element_tables.h"
#include "cpu/interpreter/isa/dtype_rows.h"
#include "cpu/vecmath/meaning.h"

namespace tile::cpu::TILE_ISA {
namespace {

struct Add {
  template <class T>
  static TILE_INLINE T made(T old, T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(x));
    else
      return old + x;
  }
};
struct Maximum {
  template <class T>
  static TILE_INLINE T made(T old, T x) {
    return meaning::max(Vec<T>(old), Vec<T>(x))[0];
  }
};
struct Minimum {
  template <class T>
  static TILE_INLINE T made(T old, T x) {
    return meaning::min(Vec<T>(old), Vec<T>(x))[0];
  }
};
struct And {
  template <class T>
  static TILE_INLINE T made(T old, T x) {
    return static_cast<T>(old & x);
  }
};
struct Or {
  template <class T>
  static TILE_INLINE T made(T old, T x) {
    return static_cast<T>(old | x);
  }
};
struct Xor {
  template <class T>
  static TILE_INLINE T made(T old, T x) {
    return static_cast<T>(old ^ x);
  }
};
struct Exchange {
  template <class T>
  static TILE_INLINE T made(T, T x) {
    return x;
  }
};

template <int bytes>
using Word = std::make_unsigned_t<IntOfSize<bytes>>;

template <class Op, class M>
struct Change {
  using F = Format<M>;
  using L = typename F::Lane;
  using W = Word<sizeof(M)>;

  static TILE_INLINE W made(W seen, L& old, L x) {
    old = F::get(bit_cast<M>(seen));
    return bit_cast<W>(F::put(Op::made(old, x)));
  }
  static TILE_INLINE L atomic(W* at, L x) {
    if constexpr (std::is_same_v<Op, Add> && F::same && std::is_integral_v<L>)
      return F::get(bit_cast<M>(__atomic_fetch_add(at, bit_cast<W>(F::put(x)), __ATOMIC_SEQ_CST)));
    W seen = __atomic_load_n(at, __ATOMIC_SEQ_CST);
    L old;
    while (!__atomic_compare_exchange_n(at, &seen, made(seen, old, x), true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
    }
    return old;
  }
  static TILE_INLINE L plain(W* at, L x) {
    L old;
    *at = made(*at, old, x);
    return old;
  }

  template <L (*one)(W*, L)>
  static void all(char* data, const int64_t* offsets, const char* lanes, char* before, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      L x, old{};
      __builtin_memcpy(&x, lanes + i * static_cast<int64_t>(sizeof x), sizeof x);
      if (offsets[i] != no_element) old = one(reinterpret_cast<W*>(data + offsets[i]), x);
      if (before) __builtin_memcpy(before + i * static_cast<int64_t>(sizeof old), &old, sizeof old);
    }
  }
  static constexpr ChangeFunctions functions{all<atomic>, all<plain>};
};

template <class M>
constexpr AtomicRow row() {
  AtomicRow row{};
  row.exchange = Change<Exchange, M>::functions;
  if constexpr (std::is_integral_v<typename Format<M>::Lane>) {
    row.bitwise_and = Change<And, M>::functions;
    row.bitwise_or = Change<Or, M>::functions;
    row.bitwise_xor = Change<Xor, M>::functions;
  }
  if constexpr (!std::is_same_v<M, Bool>) {
    row.add = Change<Add, M>::functions;
    row.maximum = Change<Maximum, M>::functions;
    row.minimum = Change<Minimum, M>::functions;
  }
  return row;
}
constexpr auto table = dtype_rows<AtomicRow>([]<class M>(DType) { return row<M>(); });

}  // namespace

extern const Span<AtomicRow> atomic_rows = table.all();

}  // namespace tile::cpu::TILE_ISA
