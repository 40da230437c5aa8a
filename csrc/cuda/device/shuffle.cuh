// Shuffles of values of any width.
#pragma once
#include "cuda/device/types.cuh"

namespace tile {

// Applies f to each 32-bit word; a narrower value is extended to one word.
template <class T, class F>
TILE T by_words(T x, F f) {
  if constexpr (sizeof(T) == 16) {
    Words<16> words = bitcast<Words<16>>(x);
    TILE_UNROLL
    for (int i = 0; i < 4; ++i) words.x[i] = f(words.x[i]);
    return bitcast<T>(words);
  } else if constexpr (sizeof(T) == 8) {
    const u64 bits = bitcast<u64>(x);
    const u64 high = f((u32)(bits >> 32)), low = f((u32)bits);
    return bitcast<T>(high << 32 | low);
  } else {
    return bitcast<T>((Unsigned<T>)f((u32)bitcast<Unsigned<T>>(x)));
  }
}

template <class T>
TILE T shuffle_value(T x, int from, int line) {
  return by_words(x, [=](u32 word) { return shuffle(word, from, line); });
}
template <class T>
TILE T shuffle_xor_value(T x, int mask, int line) {
  return by_words(x, [=](u32 word) { return shuffle_xor(word, mask, line); });
}

}  // namespace tile
