// Deals the lanes of groups to rows, one of each group to a row.
#include "cpu/interpreter/element_tables.h"
#include "cpu/vecmath/transpose.h"

namespace tile::cpu::TILE_ISA {
namespace {

// Groups that are adjacent: the compiler makes shuffles of the loop.
template <class Word, int count>
void adjacent(const Word* __restrict from, int64_t groups, char* __restrict to, int64_t to_row) {
  Word* __restrict rows[count];
  for (int k = 0; k < count; ++k) rows[k] = reinterpret_cast<Word*>(to + k * to_row);
#pragma GCC ivdep
  for (int64_t g = 0; g < groups; ++g) {
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k) rows[k][g] = from[g * count + k];
  }
}

template <class Word>
void deal_words(const char* from, int64_t distance, int64_t groups, int64_t count, char* to, int64_t to_row) {
  constexpr int64_t bytes = sizeof(Word);
  const Word* const x = reinterpret_cast<const Word*>(from);
  if (distance == count * bytes) {
    if (count == 2) return adjacent<Word, 2>(x, groups, to, to_row);
    if (count == 4) return adjacent<Word, 4>(x, groups, to, to_row);
    if (count == 8) return adjacent<Word, 8>(x, groups, to, to_row);
  }
  int64_t g = 0;
  if constexpr (bytes >= 4) {  // square blocks in registers
    using V = Vec<std::conditional_t<bytes == 4, float, double>>;
    using T = typename V::Element;
    constexpr int n = V::lanes;
    for (; count % n == 0 && g + n <= groups; g += n)
      for (int64_t c = 0; c < count; c += n) {
        V m[n];
#pragma GCC unroll 16
        for (int i = 0; i < n; ++i) m[i] = V::load(reinterpret_cast<const T*>(from + (g + i) * distance) + c);
        transpose(m);
#pragma GCC unroll 16
        for (int i = 0; i < n; ++i) m[i].store(reinterpret_cast<T*>(to + (c + i) * to_row) + g);
      }
  }
  for (; g < groups; ++g)
    for (int64_t k = 0; k < count; ++k)
      __builtin_memcpy(to + k * to_row + g * bytes, from + g * distance + k * bytes, sizeof(Word));
}

void deal(const char* from, int64_t distance, int bytes, int64_t groups, int64_t count, char* to,
          int64_t to_row) {
  if (bytes == 1) return deal_words<uint8_t>(from, distance, groups, count, to, to_row);
  if (bytes == 2) return deal_words<uint16_t>(from, distance, groups, count, to, to_row);
  if (bytes == 4) return deal_words<uint32_t>(from, distance, groups, count, to, to_row);
  return deal_words<uint64_t>(from, distance, groups, count, to, to_row);
}

}  // namespace

extern const DealFunction deal_function = deal;

}  // namespace tile::cpu::TILE_ISA
