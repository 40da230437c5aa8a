// A decoder of DEFLATE that looks each code up in one table.
#include "support/inflate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace tile {
namespace {

constexpr int longest_code = 15;

// Bits come from the least significant end of each byte. Beyond the end they are zeros, and `overrun` is set
// once one of them is consumed.
class Bits {
 public:
  explicit Bits(std::string_view bytes) : bytes_(bytes) {}

  uint32_t peek(int count) {
    while (count_ < count) {
      const uint64_t next = at_ < bytes_.size() ? static_cast<uint8_t>(bytes_[at_]) : 0;
      ++at_;
      held_ |= next << count_;
      count_ += 8;
    }
    return static_cast<uint32_t>(held_ & ((uint64_t{1} << count) - 1));
  }
  void skip(int count) {
    held_ >>= count;
    count_ -= count;
  }
  uint32_t take(int count) {
    const uint32_t bits = peek(count);
    skip(count);
    return bits;
  }
  // Drops the rest of the byte and returns the next bytes as they are, or none if there are fewer.
  std::optional<std::string_view> whole_bytes(size_t size) {
    skip(count_ % 8);
    const size_t begin = at_ - static_cast<size_t>(count_ / 8);
    if (begin > bytes_.size() || size > bytes_.size() - begin) return std::nullopt;
    at_ = begin + size;
    held_ = 0, count_ = 0;
    return bytes_.substr(begin, size);
  }
  bool overrun() const { return at_ > bytes_.size() + static_cast<size_t>(count_ / 8); }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  uint64_t held_ = 0;
  int count_ = 0;
};

// A canonical Huffman code. The table has an entry for each sequence of as many bits as the longest code has.
class Code {
 public:
  // Returns false for lengths that no code has.
  bool set(const uint8_t* lengths, size_t symbols) {
    std::array<uint32_t, longest_code + 2> first{};
    bits_ = 0;
    for (size_t symbol = 0; symbol < symbols; ++symbol) {
      ++first[lengths[symbol] + 1u];
      bits_ = std::max<int>(bits_, lengths[symbol]);
    }
    first[1] = 0;  // absent symbols
    uint32_t code = 0;
    for (size_t length = 1; length <= longest_code; ++length) {
      const uint32_t count = first[length + 1];
      code <<= 1;
      first[length] = code;
      code += count;
      if (code > 1u << length) return false;
    }
    table_.assign(size_t{1} << bits_, 0);
    for (size_t symbol = 0; symbol < symbols; ++symbol) {
      const uint32_t length = lengths[symbol];
      if (!length) continue;
      uint32_t reversed = 0, forward = first[length]++;
      for (uint32_t i = 0; i < length; ++i, forward >>= 1) reversed = reversed << 1 | (forward & 1);
      for (size_t at = reversed; at < table_.size(); at += size_t{1} << length)
        table_[at] = static_cast<uint16_t>(symbol << 4 | length);
    }
    return true;
  }
  // Returns the next symbol, or -1 for bits that are no code.
  int next(Bits& bits) const {
    const uint32_t entry = table_[bits.peek(bits_)];
    if (!entry) return -1;
    bits.skip(static_cast<int>(entry & 15));
    return static_cast<int>(entry >> 4);
  }

 private:
  int bits_ = 0;
  std::vector<uint16_t> table_;
};

constexpr int end_of_block = 256;
// The smallest value of each symbol, and how many further bits are added to it.
constexpr std::array<uint16_t, 29> length_base = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                                  15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                                  67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<uint8_t, 29> length_bits = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr size_t distance_symbols = 30;
constexpr int distance_bits(int symbol) { return symbol < 4 ? 0 : symbol / 2 - 1; }
constexpr uint32_t distance_base(int symbol) {
  return symbol < 4 ? static_cast<uint32_t>(symbol) + 1
                    : ((2u + (static_cast<uint32_t>(symbol) & 1)) << distance_bits(symbol)) + 1;
}

class Decoder {
 public:
  Decoder(std::string_view bytes, size_t size) : bits_(bytes), out_(size, '\0') {}

  std::optional<std::string> all() {
    bool last = false;
    while (!last) {
      last = bits_.take(1);
      const uint32_t kind = bits_.take(2);
      const bool good = kind == 0   ? stored()
                        : kind == 1 ? usual_codes() && coded()
                        : kind == 2 ? own_codes() && coded()
                                    : false;
      if (!good || bits_.overrun()) return std::nullopt;
    }
    if (done_ != out_.size()) return std::nullopt;
    return std::move(out_);
  }

 private:
  bool stored() {
    const auto sizes = bits_.whole_bytes(4);
    if (!sizes) return false;
    const auto number = [&](size_t at) {
      return static_cast<uint32_t>(static_cast<uint8_t>((*sizes)[at])) |
             static_cast<uint32_t>(static_cast<uint8_t>((*sizes)[at + 1])) << 8;
    };
    if (number(0) != (number(2) ^ 0xffff)) return false;
    const auto body = bits_.whole_bytes(number(0));
    if (!body || body->size() > out_.size() - done_) return false;
    std::copy(body->begin(), body->end(), out_.begin() + static_cast<std::ptrdiff_t>(done_));
    done_ += body->size();
    return true;
  }
  bool usual_codes() {
    std::array<uint8_t, 288> lengths;
    for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    std::array<uint8_t, 32> distances;
    distances.fill(5);
    return literals_.set(lengths.data(), lengths.size()) &&
           distances_.set(distances.data(), distances.size());
  }
  // The lengths of both codes are coded themselves.
  bool own_codes() {
    const size_t literals = bits_.take(5) + 257, distances = bits_.take(5) + 1, codes = bits_.take(4) + 4;
    constexpr std::array<uint8_t, 19> order = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                               11, 4,  12, 3, 13, 2, 14, 1, 15};
    std::array<uint8_t, 19> of_lengths{};
    for (size_t i = 0; i < codes; ++i) of_lengths[order[i]] = static_cast<uint8_t>(bits_.take(3));
    Code code;
    if (!code.set(of_lengths.data(), of_lengths.size())) return false;
    std::vector<uint8_t> lengths;
    while (lengths.size() < literals + distances) {
      const int symbol = code.next(bits_);
      if (symbol < 0 || bits_.overrun() || (symbol == 16 && lengths.empty())) return false;
      if (symbol < 16) {
        lengths.push_back(static_cast<uint8_t>(symbol));
        continue;
      }
      const uint8_t repeated = symbol == 16 ? lengths.back() : 0;
      const size_t times = symbol == 16   ? 3 + bits_.take(2)
                           : symbol == 17 ? 3 + bits_.take(3)
                                          : 11 + bits_.take(7);
      lengths.insert(lengths.end(), times, repeated);
    }
    return lengths.size() == literals + distances && literals_.set(lengths.data(), literals) &&
           distances_.set(lengths.data() + literals, distances);
  }
  bool coded() {
    for (;;) {
      const int symbol = literals_.next(bits_);
      if (symbol == end_of_block) return true;
      if (symbol < 0 || bits_.overrun()) return false;
      if (symbol < end_of_block) {
        if (done_ == out_.size()) return false;
        out_[done_++] = static_cast<char>(symbol);
        continue;
      }
      const auto at = static_cast<size_t>(symbol - end_of_block - 1);
      if (at >= length_base.size()) return false;
      const size_t length = length_base[at] + bits_.take(length_bits[at]);
      const int far = distances_.next(bits_);
      if (far < 0 || far >= static_cast<int>(distance_symbols)) return false;
      const size_t distance = distance_base(far) + bits_.take(distance_bits(far));
      if (distance > done_ || length > out_.size() - done_) return false;
      // Byte by byte, because a copy may read what it has just written.
      char* const to = out_.data() + done_;
      for (size_t i = 0; i < length; ++i)
        to[i] = to[static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(distance)];
      done_ += length;
    }
  }

  Bits bits_;
  std::string out_;
  size_t done_ = 0;  // bytes of `out_`
  Code literals_, distances_;
};

}  // namespace

std::optional<std::string> inflate(std::string_view bytes, size_t size) { return Decoder(bytes, size).all(); }

}  // namespace tile
