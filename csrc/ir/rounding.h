// How results of floats may be rounded, and what becomes of subnormal ones.
#pragma once
#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>

namespace tile {

enum class Rounding : uint8_t { nearest, zero, down, up };  // nearest: halves to even
enum class Subnormals : uint8_t { keep, flush };            // flush: to zero, of the same sign

// Primitives that round in a direction have its suffix behind their name.
struct RoundingInfo {
  std::string_view words, suffix;
};
inline constexpr RoundingInfo rounding_table[] = {
    {"to nearest", ""}, {"toward zero", "_rz"}, {"down", "_rm"}, {"up", "_rp"}};
constexpr const RoundingInfo& info(Rounding rounding) { return rounding_table[static_cast<int>(rounding)]; }
// Of a cast by the name of its primitive; none: that is no cast.
constexpr std::optional<Rounding> rounding_of_cast(std::string_view name) {
  constexpr std::string_view cast = "astype";
  for (int i = 0; i < 4 && name.starts_with(cast); ++i)
    if (name.substr(cast.size()) == rounding_table[i].suffix) return static_cast<Rounding>(i);
  return std::nullopt;
}
inline std::ostream& operator<<(std::ostream& out, Rounding rounding) { return out << info(rounding).words; }

}  // namespace tile
