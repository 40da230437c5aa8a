// Rounding modes of floats, and the treatment of subnormals.
#pragma once
#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>

namespace tile {

// nearest: halves to even; away: to nearest, halves away from zero (casts only).
enum class Rounding : uint8_t { nearest, zero, down, up, away };
enum class Subnormals : uint8_t { keep, flush };  // flush: to zero with the same sign

// Primitives with directed rounding append the mode's suffix to their name.
struct RoundingInfo {
  std::string_view words, suffix;
};
inline constexpr RoundingInfo rounding_table[] = {
    {"to nearest", ""}, {"toward zero", "_rz"}, {"down", "_rm"}, {"up", "_rp"}, {"with halves away", "_ra"}};
constexpr const RoundingInfo& info(Rounding rounding) { return rounding_table[static_cast<int>(rounding)]; }
// Returns the rounding of a cast, given its primitive's name; none if it is not a cast.
constexpr std::optional<Rounding> rounding_of_cast(std::string_view name) {
  constexpr std::string_view cast = "astype";
  if (!name.starts_with(cast)) return std::nullopt;
  int i = 0;
  for (const RoundingInfo& row : rounding_table) {
    if (name.substr(cast.size()) == row.suffix) return static_cast<Rounding>(i);
    ++i;
  }
  return std::nullopt;
}
inline std::ostream& operator<<(std::ostream& out, Rounding rounding) { return out << info(rounding).words; }

}  // namespace tile
