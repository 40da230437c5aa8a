// A 128-bit hash of text and bytes, equal on all compilers and machines of one byte order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tile {

struct Hash128 {
  uint64_t low = 0, high = 0;
  bool operator==(const Hash128&) const = default;
  std::string hex() const;
};

Hash128 hash128(std::string_view bytes);

}  // namespace tile
