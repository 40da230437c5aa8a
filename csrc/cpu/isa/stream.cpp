// Non-temporal copies of one instruction set.
#include "cpu/stream.h"

#include "cpu/isa/simd.h"

namespace tile::cpu::TILE_ISA {
namespace {

void write(char* to, const char* from, int64_t bytes) {
#if defined(__x86_64__)
  constexpr int64_t line = 64;
  int64_t head = (line - static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % line)) % line;
  head = head < bytes ? head : bytes;
  __builtin_memcpy(to, from, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + line <= bytes; i += line) {
#if defined(__AVX__)
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), a);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + 32), b);
#else
    for (int64_t k = 0; k < line; k += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + k), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + k)));
#endif
  }
  __builtin_memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
#else
  __builtin_memcpy(to, from, static_cast<size_t>(bytes));
#endif
}

void finish() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace

extern const StreamTable stream_table;
const StreamTable stream_table{write, finish};

}  // namespace tile::cpu::TILE_ISA
