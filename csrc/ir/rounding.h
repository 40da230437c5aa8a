// How results of floats may be rounded, and what becomes of subnormal ones.
#pragma once
#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>

namespace tile {

// nearest: halves to even; away: to nearest, halves away from zero, of casts alone
enum class Rounding : uint8_t { nearest, zero, down, up, away };
enum class Subnormals : uint8_t { keep, flush };  // flush: to zero, of the same sign

// Primitives that round in a direction have its suffix behind their name.
struct RoundingInfo {
  std::string_view words, suffix;
};
inline constexpr RoundingInfo rounding_table[] = {
    {"to nearest", ""}, {"toward zero", "_rz"}, {"down", "_rm"}, {"up", "_rp"}, {"with halves away", "_ra"}};
constexpr const RoundingInfo& info(Rounding rounding) { return rounding_table[static_cast<int>(rounding)]; }
// Returns the rounding of a cast by the name of its primitive; none: it is no cast.
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
