// The tensor cores, on the host.
#pragma once
#include "cuda/device/types.cuh"

namespace tile {

template <bool transposed>
TILE void load_matrices(u32 (&to)[4], SharedAddress row, int line, const char* file = __builtin_FILE(),
                        int at = __builtin_LINE()) {
  emulator::load_matrices(to, (const void*)row, transposed, {"the ldmatrix", line, file, at});
}
TILE void load_word(u32& to, SharedAddress at, int line) { to = load_shared<u32>((const void*)at, line); }
TILE void load_word(f64& to, SharedAddress at, int line) { to = load_shared<f64>((const void*)at, line); }
TILE void load_words(u32* to, SharedAddress at, int line) {
  const auto words = load_shared<Words<16>>((const void*)at, line);
  memcpy(to, &words, 16);
}
template <bool odd>
TILE u32 every_second_byte(u32 low, u32 high) {
  const auto two = [](u32 x) {
    return odd ? (x >> 8 & 255) | x >> 24 << 8 : (x & 255) | (x >> 16 & 255) << 8;
  };
  return two(low) | two(high) << 16;
}
TILE u32 bits_of_tf32(u32 x) { return emulator::bits_of_tf32(x); }

// Returns element i of a word; the tensor cores ignore the last 13 bits of a tf32.
template <class T>
double element_of_word(const void* word, int i) {
  T x;
  memcpy(&x, (const char*)word + i * sizeof(T), sizeof(T));
  if constexpr (__is_class(T)) {
    if constexpr (__is_same(T, tf32)) memset(&x, 0, 1), ((u8*)&x)[1] &= 0xe0;
    return to_float(x);
  } else {
    return (double)x;
  }
}
template <class X, class Y, class Sum, class Word>
TILE void multiply_block(Sum* sums, int apart, const Word (&left)[4], Word right0, Word right1,
                         const char* file = __builtin_FILE(), int at = __builtin_LINE()) {
  const auto sum = [](const void* from) { return (double)*(const Sum*)from; };
  const auto set = [](void* to, double x) {
    if constexpr (Sum(0.5) == Sum(0))
      *(Sum*)to = (Sum)(u32)(i64)x;  // wraps
    else
      *(Sum*)to = (Sum)x;
  };
  emulator::multiply_block({{&left[0], &left[1], &left[2], &left[3], &right0, &right1},
                            (int)(sizeof(Word) / sizeof(X)),
                            element_of_word<X>,
                            element_of_word<Y>,
                            {sums, sums + apart, sums + 2 * apart, sums + 3 * apart},
                            sum,
                            set},
                           {"the mma", 0, file, at});
}

}  // namespace tile
