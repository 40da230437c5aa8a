// Rows random_u32 and random_u64. Consecutive numbers share blocks, and all words of a block are used.
#include "cpu/interpreter/isa/elementwise.h"
#include "cpu/vecmath/philox.h"

namespace tile::cpu::TILE_ISA {
namespace {

constexpr int lanes = Words::lanes, block_bytes = 16;
constexpr int group_vectors = 2;  // of blocks
template <class T>
constexpr int group_width = group_vectors* lanes* block_bytes / static_cast<int>(sizeof(T));

TILE_INLINE Words words_at(const char* p, int index) { return load_at<uint64_t>(p, index); }

// Returns true if the numbers are first, first + 1, …
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

// Processes groups of consecutive numbers, whose words are consecutive in the stream of blocks. Returns false
// if they are not.
template <class T, int groups>
TILE_INLINE bool counted_groups(const PhiloxKeys& keys, Words stream, const char* numbers, char* to) {
  constexpr uint64_t in_block = block_bytes / sizeof(T);
  constexpr int count = groups * group_width<T>, vectors = groups * group_vectors,
                bytes = vectors * lanes * block_bytes;
  uint64_t first;
  __builtin_memcpy(&first, numbers, 8);
  if (first > ~uint64_t{0} - (count - 1) || !count_up<count / lanes>(numbers, first)) return false;
  const uint64_t skipped = first % in_block;
  Words block[vectors + 1];
  PhiloxBlock made[vectors + 1];
#pragma GCC unroll 5
  for (int u = 0; u <= vectors; ++u)
    block[u] = Words(first / in_block + static_cast<uint64_t>(u * lanes)) + alternating_indices();
  philox<vectors>(keys, stream, block, made);
  alignas(64) char words[bytes + lanes * block_bytes];
  char* at = skipped ? words : to;
#pragma GCC unroll 4
  for (int u = 0; u < vectors; ++u) store_alternating(made[u], at + u * lanes * block_bytes);
  if (skipped) {  // one more block, partly used
    philox<1>(keys, stream, block + vectors, made + vectors);
    store_alternating(made[vectors], words + bytes);
    __builtin_memcpy(to, words + skipped * sizeof(T), bytes);
  }
  return true;
}

// Processes any numbers, with one block per element.
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
TILE_INLINE void any_group(const char* seed, const char* stream, const char* numbers, char* to) {
  alignas(64) uint64_t words[group_width<T>];
  for (int u = 0; u < group_width<T> / lanes; ++u)
    any_words<T>(words_at(seed, u), words_at(stream, u), words_at(numbers, u)).store(words + u * lanes);
  for (int i = 0; i < group_width<T>; ++i) {
    const T word = static_cast<T>(words[i]);
    __builtin_memcpy(to + i * static_cast<int>(sizeof(T)), &word, sizeof(T));
  }
}

template <class T>
void random_loop(const Operands& in, char* out, int64_t groups) {
  for (int64_t row = 0; row < in.rows; ++row) {
    const char *seed = in.at[0] + row * in.row[0], *stream = in.at[1] + row * in.row[1],
               *numbers = in.at[2] + row * in.row[2];
    char* to = out + row * in.out_row;
    const bool one_sequence = in.step[0] == 0 && in.step[1] == 0;
    const PhiloxKeys keys(words_at(seed, 0));
    const Words high = words_at(stream, 0);
    for (int64_t left = groups, done; left > 0; left -= done) {
      done = 1;
      if (one_sequence && left > 1 && counted_groups<T, 2>(keys, high, numbers, to))
        done = 2;
      else if (!one_sequence || !counted_groups<T, 1>(keys, high, numbers, to))
        any_group<T>(seed, stream, numbers, to);
      seed += done * in.step[0];
      stream += done * in.step[1];
      numbers += done * in.step[2];
      to += done * group_width<T> * static_cast<int>(sizeof(T));
    }
  }
}

template <class T>
constexpr GroupLoop random_group{random_loop<T>, 3, group_width<T>, {8, 8, 8}, sizeof(T)};

constexpr ElementwiseRow rows[] = {row<random_group<uint32_t>>("random_u32", Lane::u64),
                                   row<random_group<uint64_t>>("random_u64", Lane::u64)};
constexpr Span<ElementwiseRow> table[] = {{rows, 2}};

}  // namespace

extern const Span<Span<ElementwiseRow>> random_rows = {table, 1};

}  // namespace tile::cpu::TILE_ISA
