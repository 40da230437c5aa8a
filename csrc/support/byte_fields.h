// Fields of bytes with their sizes, one after another, for data in files.
#pragma once
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tile {

inline void put_field(std::string& bytes, std::string_view field) {
  const uint64_t size = field.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += field;
}
inline void put_field(std::string& bytes, int field) { put_field(bytes, std::to_string(field)); }

// Removes one field from the front. Returns false if the bytes are too few, or no number.
inline bool take_field(std::string_view& bytes, std::string& field) {
  uint64_t size = 0;
  if (bytes.size() < sizeof size) return false;
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes.remove_prefix(sizeof size);
  if (size > bytes.size()) return false;
  field = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return true;
}
inline bool take_field(std::string_view& bytes, int& field) {
  std::string digits;
  if (!take_field(bytes, digits)) return false;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), field);
  return error == std::errc() && stop == digits.data() + digits.size();
}

}  // namespace tile
