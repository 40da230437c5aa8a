// SHA-256, the key of data kept on disk, where a collision would run the wrong kernel.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tile {

class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;
  void add(std::string_view bytes);
  // Adds the length as well, so that ("ab", "c") and ("a", "bc") differ.
  void add_field(std::string_view bytes);
  Digest digest() const;

 private:
  void block(const uint8_t* bytes);
  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_;
  uint64_t size_ = 0;
};

std::string hex(const Sha256::Digest& digest);

}  // namespace tile
