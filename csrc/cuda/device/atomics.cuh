// Atomic operations on elements at index tiles or offsets. If the chip lacks an instruction, a loop of
// compare-and-exchange on a word replaces it.
#pragma once
#include "cuda/device/atomic_instructions.cuh"
#include "cuda/device/math.cuh"
#include "cuda/device/memory.cuh"

namespace tile {

// An array as memory that offsets from its first element index.
template <class T, class S>
struct Array<T, -1, S> {
  T* data;
};
template <class T, int n, class S>
TILE Array<T, -1, S> flat(const Array<T, n, S>& array) {
  return {array.data};
}
template <class L, class T, class S, class Mask, class I>
TILE Element<T> element_of(const Array<T, -1, S>& array, int r, Mask mask, const Tile<I, L>& offset) {
  return {array.data + (i64)offset.x[r], valid<L>(r) && mask(r)};
}

struct NoWord {};
template <class T, bool whole_word = (sizeof(T) >= 4)>
struct WordOfBits {
  using type = NoWord;
};
template <class T>
struct WordOfBits<T, true> {
  using type = Unsigned<T>;
};
template <class T>
struct WordOfOrder {
  using type = NoWord;
};
template <>
struct WordOfOrder<i32> : SelfLane<i32> {};
template <>
struct WordOfOrder<u32> : SelfLane<u32> {};
template <>
struct WordOfOrder<i64> : SelfLane<i64> {};
template <>
struct WordOfOrder<u64> : SelfLane<u64> {};
template <class T>
struct WordOfSum : WordOfOrder<T> {};
template <>
struct WordOfSum<i32> : SelfLane<u32> {};
template <>
struct WordOfSum<i64> : SelfLane<u64> {};
template <>
struct WordOfSum<f32> : SelfLane<f32> {};
template <>
struct WordOfSum<f64> : SelfLane<f64> {};

// Defines a change: the word type that the chip supports, the instruction, and the combination of lanes x and
// y.
#define TILE_ATOMIC_CHANGE(NAME, WORD, INSTRUCTION, COMBINATION)            \
  struct NAME {                                                             \
    template <class T>                                                      \
    using Word = typename WORD<T>::type;                                    \
    template <Scope scope, class W>                                         \
    TILE static W fetch(W* at, W x, int line) {                             \
      return INSTRUCTION<scope>(at, x, line);                               \
    }                                                                       \
    template <class T>                                                      \
    TILE static T combine(T first, T second) {                              \
      const auto x = LaneOf<T>::in(first), y = LaneOf<T>::in(second);       \
      return LaneOf<T>::out(COMBINATION);                                   \
    }                                                                       \
  };
TILE_ATOMIC_CHANGE(AtomicAdd, WordOfSum, fetch_add, x + y)
TILE_ATOMIC_CHANGE(AtomicMax, WordOfOrder, fetch_max, math::max(x, y))
TILE_ATOMIC_CHANGE(AtomicMin, WordOfOrder, fetch_min, math::min(x, y))
TILE_ATOMIC_CHANGE(AtomicAnd, WordOfBits, fetch_and, x & y)
TILE_ATOMIC_CHANGE(AtomicOr, WordOfBits, fetch_or, x | y)
TILE_ATOMIC_CHANGE(AtomicXor, WordOfBits, fetch_xor, x ^ y)
#undef TILE_ATOMIC_CHANGE
struct AtomicExchange {
  template <class T>
  using Word = typename WordOfBits<T>::type;
  template <Scope scope, class W>
  TILE static W fetch(W* at, W x, int line) {
    return exchange<scope>(at, x, line);
  }
  template <class T>
  TILE static T combine(T, T second) {
    return second;
  }
};

// Replaces an element by f(element) and returns the old value. Elements narrower than a word are changed
// within their word. If f returns the same bits, no exchange is made.
template <Scope scope, class T, class F>
TILE T exchange_element(T* to, F f, int line) {
  constexpr bool within = sizeof(T) < 4;
  using Bits = Unsigned<T>;
  using Word = typename UnsignedOf<within ? 4 : sizeof(T)>::type;
  const u64 address = (u64)to;
  Word* const at = (Word*)(within ? address & ~3ull : address);
  const int shift = within ? (int)(address & 3) * 8 : 0;
  const Word mask = (Word)(Bits)~Bits(0) << shift;
  Word seen = load_word<scope, within>(at, line);
  for (;;) {
    const T before = bitcast<T>((Bits)(seen >> shift));
    const Word wanted = (seen & ~mask) | ((Word)bitcast<Bits>(f(before)) << shift);
    const Word now = wanted == seen ? seen : compare_exchange<scope, within>(at, seen, wanted, line);
    if (now == seen) return before;
    seen = now;
  }
}

template <class Op, Scope scope, class T>
TILE T change_element(T* to, T x, int line) {
  using Word = typename Op::template Word<T>;
  if constexpr (!Same<Word, NoWord>::value)
    return bitcast<T>(Op::template fetch<scope>((Word*)to, bitcast<Word>(x), line));
  else
    return exchange_element<scope>(to, [x](T before) { return Op::combine(before, x); }, line);
}

// Calls access(address, register) for each element that this thread owns and returns the results; for other
// elements it returns otherwise(register). Replicas get their values from the owners: from_owners().
template <class L, Order order, Scope scope, class T, int n, class S, class Mask, class Access,
          class Otherwise, class... I>
TILE Tile<T, L> atomic(const Array<T, n, S>& array, Mask mask, Access access, Otherwise otherwise,
                       const Tile<I, L>&... index) {
  Tile<T, L> to;
  const bool mine = stores<L>();
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) {
    to.x[r] = otherwise(r);
    const Element<T> element = element_of<L>(array, r, mask, index...);
    if (!mine || !element.there) continue;
    release_at<order, scope>(element.at);
    to.x[r] = access(element.at, r);
    acquire_at<order, scope>(element.at);
  }
  return to;
}

template <class Op, Order order, Scope scope, class L, class T, int n, class S, class Mask, class... I>
TILE Tile<T, L> atomic_change(const Array<T, n, S>& array, int line, Mask mask, const Tile<T, L>& value,
                              const Tile<I, L>&... index) {
  return atomic<L, order, scope>(
      array, mask, [&](T* at, int r) { return change_element<Op, scope>(at, value.x[r], line); },
      [](int) { return bitcast<T>(Unsigned<T>(0)); }, index...);
}
template <Order order, Scope scope, class L, class T, int n, class S, class Mask, class... I>
TILE Tile<T, L> atomic_compare(const Array<T, n, S>& array, int line, Mask mask, const Tile<T, L>& expected,
                               const Tile<T, L>& wanted, const Tile<I, L>&... index) {
  const auto compare = [&](T* at, int r) {
    const Unsigned<T> bits = bitcast<Unsigned<T>>(expected.x[r]);
    if constexpr (sizeof(T) >= 4)
      return bitcast<T>(compare_exchange<scope>((Unsigned<T>*)at, bits,
                                                bitcast<Unsigned<T>>(wanted.x[r]), line));
    else
      return exchange_element<scope>(
          at, [&](T before) { return bitcast<Unsigned<T>>(before) == bits ? wanted.x[r] : before; }, line);
  };
  return atomic<L, order, scope>(array, mask, compare, [&](int r) { return expected.x[r]; }, index...);
}
template <Order order, Scope scope, class L, class T, int n, class S, class Mask, class... I>
TILE Tile<T, L> atomic_load(const Array<T, n, S>& array, int line, Mask mask, const Tile<I, L>&... index) {
  return atomic<L, order, scope>(
      array, mask, [&](T* at, int) { return bitcast<T>(load_word<scope>((Unsigned<T>*)at, line)); },
      [](int) { return bitcast<T>(Unsigned<T>(0)); }, index...);
}
template <Order order, Scope scope, class L, class T, int n, class S, class Mask, class... I>
TILE void atomic_store(const Array<T, n, S>& array, int line, Mask mask, const Tile<T, L>& value,
                       const Tile<I, L>&... index) {
  const auto store = [&](T* at, int r) {
    store_word<scope>((Unsigned<T>*)at, bitcast<Unsigned<T>>(value.x[r]), line);
    return value.x[r];
  };
  atomic<L, order, scope>(array, mask, store, [&](int r) { return value.x[r]; }, index...);
}

// Gives the owner's values to all threads that hold the same elements.
template <int threads, class T, class L>
TILE Tile<T, L> from_owners(const Tile<T, L>& of, char* memory, int line) {
  // Compresses the thread number to the bits in which owners differ.
  int offset = 0, count = 1;
  TILE_UNROLL
  for (int bit = 1; bit < threads; bit *= 2) {
    if (L::replicas & bit) continue;
    if (thread() & bit) offset += count;
    count *= 2;
  }
  T* const own = (T*)memory + offset;
  if (owner<L>()) {
    TILE_UNROLL
    for (int r = 0; r < L::registers; ++r) store_shared(own + r * count, of.x[r], line);
  }
  synchronize(line);
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = load_shared<T>(own + r * count, line);
  return to;
}

// Additions whose old value is not used.
template <class T>
TILE void add_element(T* to, T x, int line) {
  if constexpr (adds_global<T>)
    atomic_add_global_bits<T>((u16*)to, bitcast<u16>(x), line);
  else
    change_element<AtomicAdd, Scope::device>(to, x, line);
}
TILE void add_element(f32* to, f32 x, int line) { atomic_add_global(to, x, line); }
TILE void add_element(f64* to, f64 x, int line) { atomic_add_global(to, x, line); }
TILE void add_element(i32* to, i32 x, int line) { atomic_add_global(to, x, line); }
TILE void add_element(i64* to, i64 x, int line) { atomic_add_global(to, x, line); }
TILE void add_element(u32* to, u32 x, int line) { atomic_add_global((i32*)to, (i32)x, line); }
TILE void add_element(u64* to, u64 x, int line) { atomic_add_global((i64*)to, (i64)x, line); }

template <class L, class T, int n, class S, class Mask, class... I>
TILE void add_elements(const Array<T, n, S>& array, int line, Mask mask, const Tile<T, L>& value,
                       const Tile<I, L>&... index) {
  if (!stores<L>()) return;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) {
    const Element<T> to = element_of<L>(array, r, mask, index...);
    if (to.there) add_element(to.at, value.x[r], line);
  }
}

}  // namespace tile
