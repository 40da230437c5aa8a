// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), of scalars and
// tiles.
#pragma once
#include "cuda/device/tile.cuh"

namespace tile {

struct PhiloxBlock {
  u32 x[4];
};

// The counter has `block` in its low half and `stream` in its high half.
TILE PhiloxBlock philox(u64 seed, u64 stream, u64 block) {
  u32 a = (u32)block, b = (u32)(block >> 32), c = (u32)stream, d = (u32)(stream >> 32);
  u32 key = (u32)seed, other_key = (u32)(seed >> 32);
  TILE_UNROLL
  for (int round = 0; round < 10; ++round) {
    const u64 p = (u64)a * 0xD2511F53u, q = (u64)c * 0xCD9E8D57u;
    a = (u32)(q >> 32) ^ b ^ key;
    b = (u32)q;
    c = (u32)(p >> 32) ^ d ^ other_key;
    d = (u32)p;
    key += 0x9E3779B9u;
    other_key += 0xBB67AE85u;
  }
  return {{a, b, c, d}};
}

// Selects element `number` of a block. Comparisons are used, because registers have no addresses.
template <class T>
struct RandomWord;
template <>
struct RandomWord<u32> {
  static constexpr int bits = 2;
  TILE static u32 of(const PhiloxBlock& block, u64 number) {
    const u32 even = number & 2 ? block.x[2] : block.x[0], odd = number & 2 ? block.x[3] : block.x[1];
    return number & 1 ? odd : even;
  }
};
template <>
struct RandomWord<u64> {
  static constexpr int bits = 1;
  TILE static u64 of(const PhiloxBlock& block, u64 number) {
    const u32 low = number & 1 ? block.x[2] : block.x[0], high = number & 1 ? block.x[3] : block.x[1];
    return (u64)high << 32 | low;
  }
};

template <class T>
TILE T random_word(u64 seed, u64 stream, u64 number) {
  return RandomWord<T>::of(philox(seed, stream, number >> RandomWord<T>::bits), number);
}
// Each group of registers, as large as a Philox block, loops over the blocks that it needs: one iteration if
// the elements share a block, two if a group spans two blocks, and one per element for arbitrary numbers.
template <class T, class L>
TILE Tile<T, L> random_word(const Tile<u64, L>& seed, const Tile<u64, L>& stream,
                            const Tile<u64, L>& number) {
  constexpr int bits = RandomWord<T>::bits, group = 1 << bits;
  Tile<T, L> to;
  TILE_UNROLL
  for (int first = 0; first < L::registers; first += group) {
    const int count = L::registers - first < group ? L::registers - first : group;
    u64 key = seed.x[first], high = stream.x[first], block = number.x[first] >> bits;
    u32 left = (1u << count) - 1;
    TILE_LOOP
    while (left) {
      const PhiloxBlock words = philox(key, high, block);
      u64 next_key = seed.x[first], next_high = stream.x[first], next_block = 0;
      TILE_UNROLL
      for (int i = group - 1; i >= 0; --i) {
        if (i >= count) continue;
        const int r = first + i;
        if (number.x[r] >> bits == block && seed.x[r] == key && stream.x[r] == high) {
          to.x[r] = RandomWord<T>::of(words, number.x[r]);
          left &= ~(1u << i);
        } else if (left >> i & 1) {
          next_key = seed.x[r];
          next_high = stream.x[r];
          next_block = number.x[r] >> bits;
        }
      }
      key = next_key;
      high = next_high;
      block = next_block;
    }
  }
  return to;
}
// For elements of which no two share a block.
template <class T, class L>
TILE Tile<T, L> random_words_apart(const Tile<u64, L>& seed, const Tile<u64, L>& stream,
                                   const Tile<u64, L>& number) {
  Tile<T, L> to;
  TILE_UNROLL
  for (int r = 0; r < L::registers; ++r) to.x[r] = random_word<T>(seed.x[r], stream.x[r], number.x[r]);
  return to;
}

// Returns true if registers hold runs of `count` adjacent elements along the axis.
template <class L>
TILE constexpr bool in_runs(int axis, int count) {
  if (L::registers % count) return false;
  for (int r = 0; r < L::registers; ++r)
    for (int a = 0; a < L::rank; ++a)
      if (L::element(a, r) != L::element(a, r / count * count) + (a == axis ? r % count : 0)) return false;
  return true;
}
// For elements that are numbered along an axis from `first` on, with one seed and stream. If a thread's runs
// are aligned to blocks, which is mostly known at compile time, no comparisons are needed.
template <class T, int axis, class L>
TILE Tile<T, L> random_word_along(u64 seed, u64 stream, u64 first, const Tile<u64, L>& number) {
  constexpr int bits = RandomWord<T>::bits, group = 1 << bits;
  if constexpr (in_runs<L>(axis, group) && L::element(axis, 0) % group == 0) {
    if ((first & (group - 1)) == 0 && (L::thread(axis) & (group - 1)) == 0) {
      Tile<T, L> to;
      TILE_UNROLL
      for (int r = 0; r < L::registers; r += group) {
        const PhiloxBlock words = philox(seed, stream, number.x[r] >> bits);
        TILE_UNROLL
        for (int i = 0; i < group; ++i) to.x[r + i] = RandomWord<T>::of(words, (u64)i);
      }
      return to;
    }
  }
  return random_word<T>(full<L>(seed), full<L>(stream), number);
}

}  // namespace tile
