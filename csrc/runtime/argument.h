// Arguments of a launch: arrays, scalars and compile-time constants, and the key that they form.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "ir/dtype.h"
#include "support/error.h"

namespace tile {

inline constexpr int max_array_rank = 8;

enum class DeviceKind : uint8_t { cpu, cuda };

struct ArrayArgument {
  void* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  DeviceKind device = DeviceKind::cpu;
  int device_index = 0;
  bool scalars = false;  // accessed one element at a time: GPU code need not know about whole vectors
  // The first `rank` entries are set, because every launch makes arrays. Strides are in elements and may be 0
  // or negative.
  std::array<int64_t, max_array_rank> sizes, strides;
};

struct ScalarArgument {
  DType dtype = DType::i32;
  uint64_t bits = 0;  // the value's bytes in its own width
};
template <class T>
ScalarArgument scalar_argument(T value) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int> ||
                    std::is_same_v<T, int64_t> || std::is_same_v<T, bool>,
                "a scalar kernel argument is a float, double, int, int64_t or bool");
  ScalarArgument argument;
  if constexpr (std::is_same_v<T, float>)
    argument = {DType::f32, std::bit_cast<uint32_t>(value)};
  else if constexpr (std::is_same_v<T, double>)
    argument = {DType::f64, std::bit_cast<uint64_t>(value)};
  else if constexpr (std::is_same_v<T, int>)
    argument = {DType::i32, static_cast<uint32_t>(value)};
  else if constexpr (std::is_same_v<T, bool>)
    argument = {DType::boolean, value};
  else
    argument = {DType::i64, static_cast<uint64_t>(value)};
  return argument;
}

// Run-time arguments in the order of the traced function's parameters.
using Argument = std::variant<ArrayArgument, ScalarArgument>;

// A reference to an existing argument; the other pointer is null.
struct ArgumentRef {
  ArgumentRef() {}  // not set
  ArgumentRef(const ArrayArgument& value) : array(&value), scalar(nullptr) {}
  ArgumentRef(const ScalarArgument& value) : array(nullptr), scalar(&value) {}
  const ArrayArgument* array;
  const ScalarArgument* scalar;
};
using ArgumentRefs = std::span<const ArgumentRef>;

// Up to three axes of blocks.
struct Grid {
  int64_t x = 1, y = 1, z = 1;
};

// The argument key of a launch: words that are compared as they are. Long constants are stored as text.
class LaunchKey {
 public:
  LaunchKey() = default;
  LaunchKey(const LaunchKey& other) : hash_(other.hash_), count_(other.count_), more_(other.more_) {
    std::copy_n(other.few_.begin(), count_, few_.begin());
  }
  LaunchKey& operator=(const LaunchKey&) = delete;
  [[gnu::always_inline]] void add(uint64_t word) {
    hash_ = (hash_ ^ word) * 0xff51afd7ed558ccdull, hash_ ^= hash_ >> 32;
    if (count_ < few_.size()) [[likely]]
      few_[count_++] = word;
    else
      spill(word);
  }
  void add_text(std::string_view text) {
    add(text.size());
    for (size_t i = 0; i < text.size(); i += 8) {
      uint64_t word = 0;
      text.substr(i, 8).copy(reinterpret_cast<char*>(&word), 8);
      add(word);
    }
  }
  bool operator==(const LaunchKey& other) const {
    return hash_ == other.hash_ && count_ == other.count_ &&
           std::equal(few_.begin(), few_.begin() + count_, other.few_.begin()) && more_ == other.more_;
  }
  size_t hash() const { return hash_; }

  // The last added array, and the part of its word that its layout determines: the next array often has the
  // same layout.
  const ArrayArgument* seen = nullptr;
  uint64_t seen_word = 0;

 private:
  [[gnu::noinline]] void spill(uint64_t word) { more_.push_back(word); }

  uint64_t hash_ = 0x9e3779b97f4a7c15ull;
  uint32_t count_ = 0;
  std::array<uint64_t, 24> few_;  // the first count_ are set, because every launch makes a key
  std::vector<uint64_t> more_;
};

}  // namespace tile
