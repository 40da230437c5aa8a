// Philox4x32-10 over vectors of blocks. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011.
#pragma once
#include "cpu/vecmath/simd.h"

namespace tile::cpu::TILE_ISA {

using Words = Vec<uint64_t>;

// Multiplies the low halves of the lanes: 32 by 32 bits.
TILE_INLINE Words wide_product(Words a, Words b) {
#if TILE_VECTOR_BYTES == 64
  return (Native<uint64_t>)_mm512_mul_epu32((__m512i)a.v, (__m512i)b.v);
#elif TILE_VECTOR_BYTES == 32
  return (Native<uint64_t>)_mm256_mul_epu32((__m256i)a.v, (__m256i)b.v);
#else
  return (Native<uint64_t>)_mm_mul_epu32((__m128i)a.v, (__m128i)b.v);
#endif
}

// The four words of a block, as two vectors.
struct PhiloxBlock {
  Words low, high;
};

// The keys that the rounds derive from a seed.
struct PhiloxKeys {
  Words low[10], high[10];
  TILE_INLINE explicit PhiloxKeys(Words seed) {
    Words key = seed, other_key = seed >> 32;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      low[round] = key;
      high[round] = other_key;
      key = key + Words(0x9E3779B9);
      other_key = other_key + Words(0xBB67AE85);
    }
  }
};

// Computes one block per lane. The counter has `block` in its low half and `stream` in its high half. Words
// are in the low halves of lanes; the high halves are unspecified. `count` vectors hide each other's latency.
template <int count>
TILE_INLINE void philox(const PhiloxKeys& keys, Words stream, const Words* block, PhiloxBlock* to) {
  Words a[count], b[count], c[count], d[count];
#pragma GCC unroll 4
  for (int u = 0; u < count; ++u) {
    a[u] = block[u];
    b[u] = block[u] >> 32;
    c[u] = stream;
    d[u] = stream >> 32;
  }
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 4
    for (int u = 0; u < count; ++u) {
      const Words p = wide_product(a[u], Words(0xD2511F53)), q = wide_product(c[u], Words(0xCD9E8D57));
      a[u] = (q >> 32) ^ (b[u] ^ keys.low[round]);
      b[u] = q;
      c[u] = (p >> 32) ^ (d[u] ^ keys.high[round]);
      d[u] = p;
    }
  }
  const Words word(0xFFFFFFFF);
#pragma GCC unroll 4
  for (int u = 0; u < count; ++u) to[u] = {(a[u] & word) | (b[u] << 32), (c[u] & word) | (d[u] << 32)};
}
TILE_INLINE PhiloxBlock philox(Words seed, Words stream, Words block) {
  PhiloxBlock to;
  philox<1>(PhiloxKeys(seed), stream, &block, &to);
  return to;
}

// Stores low[0], high[0], low[2], high[2], … and then those of the odd lanes. The caller decides which blocks
// the lanes hold.
TILE_INLINE void store_alternating(PhiloxBlock block, char* to) {
#if TILE_VECTOR_BYTES == 64
  const auto even = (Native<uint64_t>)_mm512_unpacklo_epi64((__m512i)block.low.v, (__m512i)block.high.v);
  const auto odd = (Native<uint64_t>)_mm512_unpackhi_epi64((__m512i)block.low.v, (__m512i)block.high.v);
#elif TILE_VECTOR_BYTES == 32
  const auto even = (Native<uint64_t>)_mm256_unpacklo_epi64((__m256i)block.low.v, (__m256i)block.high.v);
  const auto odd = (Native<uint64_t>)_mm256_unpackhi_epi64((__m256i)block.low.v, (__m256i)block.high.v);
#else
  const auto even = (Native<uint64_t>)_mm_unpacklo_epi64((__m128i)block.low.v, (__m128i)block.high.v);
  const auto odd = (Native<uint64_t>)_mm_unpackhi_epi64((__m128i)block.low.v, (__m128i)block.high.v);
#endif
  __builtin_memcpy(to, &even, vector_bytes);
  __builtin_memcpy(to + vector_bytes, &odd, vector_bytes);
}
// Returns the lanes' indices in that order.
TILE_INLINE Words alternating_indices() {
  Words r;
  for (int i = 0; i < Words::lanes; ++i) r.v[i] = static_cast<uint64_t>(i % 2 * (Words::lanes / 2) + i / 2);
  return r;
}

}  // namespace tile::cpu::TILE_ISA
