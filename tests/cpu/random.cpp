// Tests Philox on every instruction set of this machine: the published vectors, and rows with numbers of
// every kind.
#include <array>
#include <numeric>

#include "cpu/isa/probe.h"
#include "lanes.h"

namespace tile::cpu::testing {
namespace {

class Random : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(, Random, ::testing::ValuesIn(machine_isas()),
                         [](const auto& info) { return std::string(name(info.param)); });

using Block = std::array<uint32_t, 4>;

// Written as in the paper: counter words as input, one round after another.
Block philox_of(Block x, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t{0xD2511F53} * x[0], q = uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<uint32_t>(q >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(q),
         static_cast<uint32_t>(p >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(p)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return x;
}
Block philox_of(uint64_t seed, uint64_t stream, uint64_t block) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  return philox_of({low(block), low(block >> 32), low(stream), low(stream >> 32)},
                   {low(seed), low(seed >> 32)});
}

// The test vectors of Random123.
TEST_P(Random, GivesThePublishedBlocks) {
  struct Known {
    uint64_t seed, stream, block;
    Block words;
  };
  const Known known[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822,
       0x0370734413198a2e,
       0x85a308d3243f6a88,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const Known& k : known) {
    EXPECT_EQ(philox_of(k.seed, k.stream, k.block), k.words);
    const ProbeTable& probe = probe_table(GetParam());
    std::vector<uint32_t> words(static_cast<size_t>(probe.vector_bytes) / 2);
    probe.philox(k.seed, k.stream, k.block, words.data());
    for (size_t i = 0; i < words.size(); ++i) EXPECT_EQ(words[i], k.words[i % 4]) << i;
  }
}

enum Numbers { counting, scattered, broken, wrapping };

// Compares rows x cols elements with one block per element; operand k repeats along the columns by bit k.
template <class T>
void check_row(const ElementwiseRow& row, unsigned repeats, Numbers kind, int64_t rows, int64_t cols,
               uint64_t first) {
  std::mt19937_64 random(static_cast<uint64_t>(cols) * 8 + repeats);
  Arena memory[3], out_memory;
  const auto width = [&](unsigned k) { return repeats >> k & 1 ? 1 : cols; };
  std::vector<Rows<uint64_t>> in = {
      {memory[0], rows, width(0), 3}, {memory[1], rows, width(1), 0}, {memory[2], rows, width(2), 1}};
  for (int64_t r = 0; r < rows; ++r)
    for (unsigned k = 0; k < 3; ++k)
      for (int64_t c = 0; c < width(k); ++c) {
        const uint64_t count = first + static_cast<uint64_t>(r * cols + c);
        const bool odd_one = kind == broken && c % 37 == 36;
        in[k].set(r, c, k < 2 || kind == scattered || odd_one ? random() : count);
      }
  Rows<T> out(out_memory, rows, cols, 2);
  Chunk chunk{rows, cols, out.data, out.stride, {}, {}};
  for (unsigned k = 0; k < 3; ++k) {
    chunk.in[k] = in[k].data;
    chunk.in_row[k] = in[k].stride;
  }
  row.variants[repeats](chunk);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const auto at = [&](unsigned k) { return in[k].get(r, repeats >> k & 1 ? 0 : c); };
      const uint64_t number = at(2), in_block = 16 / sizeof(T);
      const Block block = philox_of(at(0), at(1), number / in_block);
      T expected;
      std::memcpy(&expected, reinterpret_cast<const char*>(&block) + number % in_block * sizeof(T),
                  sizeof(T));
      ASSERT_EQ(out.get(r, c), expected)
          << row.name << " repeats " << repeats << " kind " << kind << " of " << rows << " x " << cols
          << " from " << first << " at " << r << ", " << c;
    }
  EXPECT_TRUE(out.padding_untouched(rows));
}

TEST_P(Random, RowsAreABlockAnElement) {
  for (std::string_view name : {"random_u32", "random_u64"}) {
    const ElementwiseRow* row = find_elementwise(name, Lane::u64, tables(GetParam()));
    ASSERT_NE(row, nullptr);
    const auto check = [&](auto... arguments) {
      name == "random_u32" ? check_row<uint32_t>(*row, arguments...)
                           : check_row<uint64_t>(*row, arguments...);
    };
    for (int64_t cols : {0, 1, 2, 3, 4, 5, 7, 16, 31, 32, 33, 63, 64, 65, 100, 128, 200})
      for (int64_t rows : row_counts) {
        for (uint64_t first : {0, 1, 2, 3, 4, 77}) check(3u, counting, rows, cols, first);
        for (unsigned repeats = 0; repeats < 7; ++repeats)
          for (Numbers kind : {counting, scattered, broken}) check(repeats, kind, rows, cols, uint64_t{5});
        check(3u, counting, rows, cols, (uint64_t{1} << 32) - 9);  // the counters' low halves wrap
        check(3u, counting, rows, cols, (uint64_t{1} << 34) - 9);
        check(3u, wrapping, rows, cols, ~uint64_t{0} - 40);  // past 2^64
      }
  }
}

}  // namespace
}  // namespace tile::cpu::testing
