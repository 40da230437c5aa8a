// Elements of an array at index tiles: where they are, and moves between them and adjacent elements.
#include "cpu/interpreter/element_tables.h"
#include "cpu/vecmath/simd.h"

namespace tile::cpu::TILE_ISA {
namespace {

// The loops have no branches, so that the compiler makes vectors of them. `scaled` multiplies by the stride;
// overflow wraps: far outside of the array an offset means nothing.
template <class Index, class Scale>
TILE_INLINE bool locate_all(const Index* index, const IndexedAxis& axis, bool first, int64_t* offsets,
                            int64_t n, const Scale& scaled) {
  const int64_t low = axis.first, high = axis.size;
  uint64_t absent = 0;
  if (first) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = static_cast<int64_t>(index[i]);
      const bool outside = (at < low) | (at >= high);
      const auto offset = static_cast<int64_t>(scaled(static_cast<uint64_t>(at)));
      offsets[i] = outside ? no_element : offset;
      absent |= outside ? 1u : 0u;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = static_cast<int64_t>(index[i]), before = offsets[i];
      const bool outside = (at < low) | (at >= high) | (before == no_element);
      const auto offset =
          static_cast<int64_t>(static_cast<uint64_t>(before) + scaled(static_cast<uint64_t>(at)));
      offsets[i] = outside ? no_element : offset;
      absent |= outside ? 1u : 0u;
    }
  }
  return absent == 0;
}
// Elements that are adjacent have a power of two as the stride, and few chips multiply vectors of 64 bits.
template <class Index>
bool locate(const char* lanes, const IndexedAxis& axis, bool first, int64_t* offsets, int64_t n) {
  const Index* index = reinterpret_cast<const Index*>(lanes);
  const auto stride = static_cast<uint64_t>(axis.stride);
  if (__builtin_popcountll(stride) != 1)
    return locate_all(index, axis, first, offsets, n, [&](uint64_t at) { return at * stride; });
  const int shift = __builtin_ctzll(stride);
  return locate_all(index, axis, first, offsets, n, [&](uint64_t at) { return at << shift; });
}

template <class Word>
TILE_INLINE Word word_at(const char* p) {
  Word word;
  __builtin_memcpy(&word, p, sizeof word);
  return word;
}
// Elements that are absent are taken from, and put, elsewhere: a branch that nobody foresees costs more.
TILE_INLINE int64_t offset_or(int64_t offset, int64_t elsewhere) {
  const int64_t absent = -static_cast<int64_t>(offset == no_element);
  return (offset & ~absent) | (elsewhere & absent);
}
TILE_INLINE int64_t distance(const char* from, const void* to) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from));
}
// In numbers, since it may leave the array; the compiler must not conclude that it stays there.
TILE_INLINE char* moved(const char* data, int64_t offset) {
  auto address = reinterpret_cast<uintptr_t>(data) + static_cast<uint64_t>(offset);
  asm("" : "+r"(address));
  return reinterpret_cast<char*>(address);
}
template <class Word>
void read(const char* data, const int64_t* offsets, bool all, char* elements, int64_t n) {
  Word* const to = reinterpret_cast<Word*>(elements);
  if (all) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < n; ++i) to[i] = word_at<Word>(data + offsets[i]);
  } else {
    const Word nothing{};
    const int64_t elsewhere = distance(data, &nothing);
    for (int64_t i = 0; i < n; ++i) to[i] = word_at<Word>(moved(data, offset_or(offsets[i], elsewhere)));
  }
}
template <class Word>
void write(char* data, const int64_t* offsets, bool all, const char* elements, int64_t n) {
  const auto word = [&](int64_t i) {
    return word_at<Word>(elements + i * static_cast<int64_t>(sizeof(Word)));
  };
  if (all) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < n; ++i) {
      const Word x = word(i);
      __builtin_memcpy(data + offsets[i], &x, sizeof x);
    }
  } else {
    Word nowhere;
    const int64_t elsewhere = distance(data, &nowhere);
    for (int64_t i = 0; i < n; ++i) {
      const Word x = word(i);
      __builtin_memcpy(moved(data, offset_or(offsets[i], elsewhere)), &x, sizeof x);
    }
  }
}
template <class Word>
void pad(const int64_t* offsets, const char* lane, char* lanes, int64_t n) {
  const Word value = word_at<Word>(lane);
  Word* const to = reinterpret_cast<Word*>(lanes);
  for (int64_t i = 0; i < n; ++i) {
    const Word kept = to[i];
    to[i] = offsets[i] == no_element ? value : kept;
  }
}

constexpr ElementsTable table{
    {locate<uint8_t>, locate<int8_t>, locate<int16_t>, locate<int32_t>, locate<int64_t>, locate<uint16_t>,
     locate<uint32_t>, locate<uint64_t>, nullptr, nullptr},
    {read<uint8_t>, read<uint16_t>, read<uint32_t>, read<uint64_t>},
    {write<uint8_t>, write<uint16_t>, write<uint32_t>, write<uint64_t>},
    {pad<uint8_t>, pad<uint16_t>, pad<uint32_t>, pad<uint64_t>}};

}  // namespace

extern const ElementsTable elements_table = table;

}  // namespace tile::cpu::TILE_ISA
