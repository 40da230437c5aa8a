// Moves elements to another layout: between the registers of a thread, the lanes of a warp, or through shared
// memory.
#pragma once
#include "cuda/device/shuffle.cuh"
#include "cuda/device/tile.cuh"

namespace tile {

// Register r of the result is register map(r) of the same thread.
template <class L, class T, class From, class Map>
TILE Tile<T, L> registers(const Tile<T, From>& from, Map map) {
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = from.x[map(r)];
  return to;
}

// The word that a shuffle carries: an element of 8 bytes, or one or more elements that fill 4 bytes.
template <int bytes>
struct ShuffleWord {
  using type = u32;
};
template <>
struct ShuffleWord<8> {
  using type = u64;
};
// If `flipped`, `from` is the exclusive or of the two lane numbers, not the source lane.
TILE u32 shuffle_word(u32 x, int from, bool flipped, int line) {
  return flipped ? shuffle_xor(x, from, line) : shuffle(x, from, line);
}
TILE u64 shuffle_word(u64 x, int from, bool flipped, int line) {
  return by_words(x, [=](u32 word) { return shuffle_word(word, from, flipped, line); });
}
// Exchanges words whose numbers differ in one bit.
template <int words, class Word, int n>
TILE void exchange_words(Word (&x)[n], int bit, bool wanted) {
  TILE_UNROLL
  for (int w = 0; w < words; ++w) {
    if (w >> bit & 1) continue;
    const int other = w | 1 << bit;
    const Word low = x[w], high = x[other];
    x[w] = wanted ? high : low;
    x[other] = wanted ? low : high;
  }
}

// Plan has: `together`, the elements of a word; given(i), the register of element i of all words, of which a
// lane selects by picks_second(bit) for each of the `selects` bits; exchanges, in which lanes permute words
// before and after the shuffle; the source lane of word w, lane_of() ^ flip(w); and taken(r), the element for
// register r.
template <class L, class Plan, class T, class From>
TILE Tile<T, L> shuffled(const Tile<T, From>& from, int line) {
  using Word = typename ShuffleWord<sizeof(T)>::type;
  constexpr int words = Plan::words, all = words << Plan::selects, bits = 8 * sizeof(T);
  Word x[all];
  TILE_UNROLL
  for (int w = 0; w < all; ++w) {
    x[w] = 0;
    TILE_UNROLL
    for (int e = 0; e < Plan::together; ++e)
      x[w] |= (Word)bitcast<Unsigned<T>>(from.x[Plan::given(w * Plan::together + e)]) << (e * bits);
  }
  TILE_UNROLL
  for (int bit = Plan::selects - 1; bit >= 0; --bit) {
    const bool second = Plan::picks_second(bit);
    TILE_UNROLL
    for (int w = 0; w < words << bit; ++w) x[w] = second ? x[w + (words << bit)] : x[w];
  }
  TILE_UNROLL
  for (int bit = 0; bit < Plan::exchanges; ++bit) exchange_words<words>(x, bit, Plan::gives_other(bit));
  const int giver = Plan::own_lane ? 0 : Plan::lane_of();
  TILE_UNROLL
  for (int w = 0; w < words; ++w)
    if (!Plan::own_lane || Plan::flip(w))
      x[w] = shuffle_word(x[w], giver ^ Plan::flip(w), Plan::own_lane, line);
  TILE_UNROLL
  for (int bit = 0; bit < Plan::exchanges; ++bit) exchange_words<words>(x, bit, Plan::takes_other(bit));
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) {
    const int at = Plan::taken(r);
    to.x[r] = bitcast<T>((Unsigned<T>)(x[at / Plan::together] >> (at % Plan::together * bits)));
  }
  return to;
}

template <int... weights>
struct Weights {
  TILE static constexpr int of(int axis) {
    constexpr int all[] = {weights..., 0};
    return all[axis];
  }
};
template <class L, class Weights>
TILE i32 linear(int r) {
  i32 at = 0;
  TILE_UNROLL
  for (int axis = 0; axis < L::rank; ++axis)
    at += (L::thread(axis) + L::element(axis, r)) * Weights::of(axis);
  return at;
}

template <class Weights, class T, class L>
TILE void write_shared(T* memory, const Tile<T, L>& from, int line) {
  if (!owner<L>()) return;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r)
    if (valid<L>(r)) store_shared(memory + linear<L, Weights>(r), from.x[r], line);
}
template <class L, class Weights, class T>
TILE Tile<T, L> read_in_order(const T* memory, int line) {
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) {
    to.x[r] = T();
    if (valid<L>(r)) to.x[r] = load_shared<T>(memory + linear<L, Weights>(r), line);
  }
  return to;
}
// Waits for all preceding writes and for all following reads.
template <class L, class Weights, class T>
TILE Tile<T, L> read_shared(const T* memory, int line) {
  synchronize(line);
  const Tile<T, L> to = read_in_order<L, Weights>(memory, line);
  synchronize(line);
  return to;
}

// Writes elements at one layout's weights and reads them at another's. Waits for all preceding writes but not
// for the reads: a barrier must precede the next write to `memory`.
template <class L, class FromWeights, class ToWeights, class T, class From>
TILE Tile<T, L> through_shared(const Tile<T, From>& from, char* memory, int line) {
  write_shared<FromWeights>((T*)memory, from, line);
  synchronize(line);
  return read_in_order<L, ToWeights>((const T*)memory, line);
}

// The adjacent elements of one access.
template <int bytes>
struct alignas(bytes) Neighbours {
  char x[bytes];
};
template <>
struct alignas(4) Neighbours<4> {
  u32 x;
};
template <>
struct alignas(8) Neighbours<8> {
  u32 x[2];
};
template <>
struct alignas(16) Neighbours<16> {
  u32 x[4];
};
// The position of an access: some bits of the two offsets are combined by exclusive or, the others are added.
template <class Move>
TILE int move_offset(int of_thread, int of_registers) {
  const int folded = Move::folded(of_registers);
  return (of_thread ^ (folded & Move::exchanged)) + (folded & ~Move::exchanged);
}

// Move has: `writes` accesses of `write` elements each, from registers given(i); `reads` accesses of `read`
// elements, of which register r of the result takes taken(r); and their positions. Waits like through_shared.
template <class L, class Move, class T, class From>
TILE Tile<T, L> through_memory(const Tile<T, From>& from, char* memory, int line) {
  if (owner<From>()) {
    const int own = Move::folded(Move::write_thread());
    TILE_UNROLL
    for (int i = 0; i < Move::writes; ++i) {
      T elements[Move::write];
      TILE_UNROLL
      for (int e = 0; e < Move::write; ++e) elements[e] = from.x[Move::given(i * Move::write + e)];
      Neighbours<Move::write * (int)sizeof(T)> word;
      memcpy(&word, elements, sizeof(word));
      store_shared((T*)memory + move_offset<Move>(own, Move::write_at(i)), word, line);
    }
  }
  synchronize(line);
  const int own = Move::folded(Move::read_thread());
  T elements[Move::reads * Move::read];
  TILE_UNROLL
  for (int i = 0; i < Move::reads; ++i) {
    using Word = Neighbours<Move::read * (int)sizeof(T)>;
    const Word word = load_shared<Word>((T*)memory + move_offset<Move>(own, Move::read_at(i)), line);
    memcpy(&elements[i * Move::read], &word, sizeof(word));
  }
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = elements[Move::taken(r)];
  return to;
}

// Concatenates two tiles along an axis: indices are row-major in the result, and those of y count from
// `second`.
template <class L, class Weights, class T, class X, class Y>
TILE Tile<T, L> cat(const Tile<T, X>& x, const Tile<T, Y>& y, int second, int line) {
  T* memory = (T*)shared_memory();
  write_shared<Weights>(memory, x, line);
  write_shared<Weights>(memory + second, y, line);
  return read_shared<L, Weights>(memory, line);
}

}  // namespace tile
