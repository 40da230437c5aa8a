// Philox4x32-10 over vectors of blocks. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011.
#pragma once
#include "cpu/isa/simd.h"

namespace tile::cpu::TILE_ISA {

using Words = Vec<uint64_t>;

// Of the low half of each lane: 32 by 32 bits.
TILE_INLINE Words wide_product(Words a, Words b) {
#if TILE_VECTOR_BYTES == 64
  return (Native<uint64_t>)_mm512_mul_epu32((__m512i)a.v, (__m512i)b.v);
#elif TILE_VECTOR_BYTES == 32
  return (Native<uint64_t>)_mm256_mul_epu32((__m256i)a.v, (__m256i)b.v);
#else
  return (Native<uint64_t>)_mm_mul_epu32((__m128i)a.v, (__m128i)b.v);
#endif
}

// The four words of a block, as two.
struct PhiloxBlock {
  Words low, high;
};

// A lane for each block: its counter is `block` below `stream`. Words are kept in the low halves of lanes;
// what is in the high halves is never read.
TILE_INLINE PhiloxBlock philox(Words seed, Words stream, Words block) {
  Words a = block, b = block >> 32, c = stream, d = stream >> 32, key = seed, other_key = seed >> 32;
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Words p = wide_product(a, Words(0xD2511F53)), q = wide_product(c, Words(0xCD9E8D57));
    a = (q >> 32) ^ b ^ key;
    b = q;
    c = (p >> 32) ^ d ^ other_key;
    d = p;
    key = key + Words(0x9E3779B9);
    other_key = other_key + Words(0xBB67AE85);
  }
  const Words word(0xFFFFFFFF);
  return {(a & word) | (b << 32), (c & word) | (d << 32)};
}

// low[0], high[0], low[2], high[2], … and then those of the odd lanes: which blocks the lanes hold,
// consecutive ones or not, is up to the caller.
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
// The lanes' places in that order.
TILE_INLINE Words alternating_places() {
  Words r;
  for (int i = 0; i < Words::lanes; ++i) r.v[i] = static_cast<uint64_t>(i % 2 * (Words::lanes / 2) + i / 2);
  return r;
}

}  // namespace tile::cpu::TILE_ISA
