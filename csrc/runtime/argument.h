// What a launch passes to a kernel: arrays, scalars and compile-time constants, and the key they make.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
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
  std::array<int64_t, max_array_rank> sizes{}, strides{};  // strides in elements; may be 0 or negative
};

struct ScalarArgument {
  DType dtype = DType::i32;
  uint64_t bits = 0;  // the value's bytes, in its own width
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

// Up to three axes of blocks.
struct Grid {
  int64_t x = 1, y = 1, z = 1;
};

// The argument key of a launch: words, compared as they are. Long constants spill into text.
class LaunchKey {
 public:
  void add(uint64_t word) { words_.push_back(word); }
  void add_text(std::string_view text) {
    add(text.size());
    for (size_t i = 0; i < text.size(); i += 8) {
      uint64_t word = 0;
      text.substr(i, 8).copy(reinterpret_cast<char*>(&word), 8);
      add(word);
    }
  }
  bool operator==(const LaunchKey&) const = default;
  size_t hash() const {
    uint64_t h = 0x9e3779b97f4a7c15ull;
    for (uint64_t word : words_) h = (h ^ word) * 0xff51afd7ed558ccdull, h ^= h >> 32;
    return h;
  }

 private:
  std::vector<uint64_t> words_;
};

}  // namespace tile
