// Rows random_u32 and random_u64. Numbers that count up share blocks, and all words of a block are used.
#include "cpu/isa/elementwise.h"
#include "cpu/isa/philox.h"

namespace tile::cpu::TILE_ISA {
namespace {

constexpr int lanes = Words::lanes;
constexpr int group_vectors = 2;  // of blocks

TILE_INLINE Words words_at(const char* p, int index) { return load_at<uint64_t>(p, index); }

// Whether they are first, first + 1, …
template <int vectors>
TILE_INLINE bool count_up(const char* numbers, uint64_t first) {
  Words wrong(0), expected = Words(first) + Words::iota();
#pragma GCC unroll 16
  for (int u = 0; u < vectors; ++u) {
    wrong = wrong | (words_at(numbers, u) ^ expected);
    expected = expected + Words(static_cast<uint64_t>(lanes));
  }
  return !any(wrong != Words(0));
}

// Elements first, first + 1, …, of T, of so many vectors of blocks: as they follow each other in the stream
// of words.
template <class T, int vectors>
TILE_INLINE void counted_group(const PhiloxKeys& keys, Words stream, uint64_t first, char* to) {
  constexpr uint64_t in_block = 16 / sizeof(T);
  constexpr int block_bytes = 16, bytes = vectors * lanes * block_bytes;
  const uint64_t skipped = first % in_block;
  Words block[vectors + 1];
  PhiloxBlock made[vectors + 1];
#pragma GCC unroll 5
  for (int u = 0; u <= vectors; ++u)
    block[u] = Words(first / in_block + static_cast<uint64_t>(u * lanes)) + alternating_places();
  philox<vectors>(keys, stream, block, made);
  alignas(64) char words[bytes + lanes * block_bytes];
  char* at = skipped ? words : to;
#pragma GCC unroll 4
  for (int u = 0; u < vectors; ++u) store_alternating(made[u], at + u * lanes * block_bytes);
  if (skipped == 0) return;
  // Part of one block more.
  philox<1>(keys, stream, block + vectors, made + vectors);
  store_alternating(made[vectors], words + bytes);
  __builtin_memcpy(to, words + skipped * sizeof(T), bytes);
}

// Any elements: a block for each.
template <class T>
TILE_INLINE Words any_words(Words seed, Words stream, Words number) {
  if constexpr (sizeof(T) == 8) {
    const PhiloxBlock block = philox(seed, stream, number >> 1);
    return select((number & Words(1)) != Words(0), block.high, block.low);
  } else {
    const PhiloxBlock block = philox(seed, stream, number >> 2);
    const Words two = select((number & Words(2)) != Words(0), block.high, block.low);
    return select((number & Words(1)) != Words(0), two >> 32, two);
  }
}

template <class T>
void random_loop(const Operands& in, char* out, int64_t groups) {
  constexpr int width = group_vectors * 2 * vector_bytes / static_cast<int>(sizeof(T));
  constexpr int vectors = width / lanes;
  for (int64_t row = 0; row < in.rows; ++row) {
    const char *seed = in.at[0] + row * in.row[0], *stream = in.at[1] + row * in.row[1],
               *number = in.at[2] + row * in.row[2];
    char* to = out + row * in.out_row;
    const bool one_sequence = in.step[0] == 0 && in.step[1] == 0;
    const PhiloxKeys keys(words_at(seed, 0));
    int64_t left = groups;
    // Two groups at a time, whose steps hide each other's latency.
    for (; one_sequence && left > 1; left -= 2) {
      uint64_t first;
      __builtin_memcpy(&first, number, 8);
      if (first > ~uint64_t{0} - (2 * width - 1) || !count_up<2 * vectors>(number, first)) break;
      counted_group<T, 2 * group_vectors>(keys, words_at(stream, 0), first, to);
      number += 2 * in.step[2];
      to += 2 * width * static_cast<int>(sizeof(T));
    }
    for (; left > 0; --left) {
      uint64_t first;
      __builtin_memcpy(&first, number, 8);
      // Where numbers wrap within a group, its words are no longer neighbours.
      if (one_sequence && first <= ~uint64_t{0} - (width - 1) && count_up<vectors>(number, first)) {
        counted_group<T, group_vectors>(keys, words_at(stream, 0), first, to);
      } else {
        alignas(64) uint64_t words[width];
        for (int u = 0; u < vectors; ++u)
          any_words<T>(words_at(seed, u), words_at(stream, u), words_at(number, u)).store(words + u * lanes);
        for (int i = 0; i < width; ++i) {
          const T word = static_cast<T>(words[i]);
          __builtin_memcpy(to + i * static_cast<int>(sizeof(T)), &word, sizeof(T));
        }
      }
      seed += in.step[0];
      stream += in.step[1];
      number += in.step[2];
      to += width * static_cast<int>(sizeof(T));
    }
  }
}

template <class T>
constexpr GroupLoop random_group{
    random_loop<T>, 3, group_vectors * 2 * vector_bytes / static_cast<int>(sizeof(T)), {8, 8, 8}, sizeof(T)};

constexpr ElementwiseRow rows[] = {row<random_group<uint32_t>>("random_u32", Lane::u64),
                                   row<random_group<uint64_t>>("random_u64", Lane::u64)};
constexpr Span<ElementwiseRow> table[] = {{rows, 2}};

}  // namespace

extern const Span<Span<ElementwiseRow>> random_rows = {table, 1};

}  // namespace tile::cpu::TILE_ISA
