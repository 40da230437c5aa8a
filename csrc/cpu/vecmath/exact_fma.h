// x*y + z of doubles with one directed rounding, in integer arithmetic, for chips without the instruction.
#pragma once
#include "cpu/vecmath/vec.h"

namespace tile::cpu::TILE_ISA {

// The numbers of x86's control register.
enum class Direction { nearest = 0, down = 1, up = 2, zero = 3 };

namespace exact_arithmetic {

// (-1)^negative * units * 2^exponent; units is nonzero, below 2^126 and mostly at least 2^125.
struct Exact {
  __extension__ typedef unsigned __int128 Units;
  bool negative;
  int exponent;
  Units units;
};
TILE_INLINE int top_bit(Exact::Units x) {
  const uint64_t high = static_cast<uint64_t>(x >> 64);
  return high ? 127 - __builtin_clzll(high) : 63 - __builtin_clzll(static_cast<uint64_t>(x));
}
TILE_INLINE Exact normal(bool negative, int exponent, Exact::Units units) {
  const int shift = 125 - top_bit(units);
  return {negative, exponent - shift, units << shift};
}
// x must be finite and nonzero.
TILE_INLINE Exact exact(double x) {
  const uint64_t bits = bit_cast<uint64_t>(x), fraction = bits & ((1ull << 52) - 1);
  const int exponent = static_cast<int>(bits >> 52 & 2047);
  return {bits >> 63 != 0, (exponent ? exponent : 1) - 1075, fraction | (exponent ? 1ull << 52 : 0)};
}

TILE_INLINE double rounded(Exact x, Direction d) {
  const bool away = d == Direction::zero ? false : (d == Direction::down) == x.negative;
  const int wanted = top_bit(x.units) + x.exponent - 52, last = wanted < -1074 ? -1074 : wanted;
  const int drop = last - x.exponent;
  uint64_t bits, rest = 0;
  if (drop <= 0) {
    bits = static_cast<uint64_t>(x.units << -drop);
  } else if (drop > 127) {
    bits = 0, rest = 1;
  } else {
    bits = static_cast<uint64_t>(x.units >> drop);
    rest = (x.units & ((Exact::Units(1) << drop) - 1)) != 0;
  }
  // The leading one increments the exponent, as does a carry beyond it.
  bits += (static_cast<uint64_t>(last + 1074) << 52) + (away ? rest : 0);
  constexpr uint64_t infinity = 2047ull << 52;
  if (bits >= infinity) bits = away ? infinity : infinity - 1;
  return bit_cast<double>(bits | static_cast<uint64_t>(x.negative) << 63);
}

}  // namespace exact_arithmetic

TILE_INLINE double exact_fma(double x, double y, double z, Direction d) {
  constexpr double largest = 0x1.fffffffffffffp1023;
  if (!(__builtin_fabs(x) <= largest && __builtin_fabs(y) <= largest)) return x * y + z;
  if (!(__builtin_fabs(z) <= largest)) return z + z;
  const double zero = d == Direction::down ? -0.0 : 0.0;
  if (x == 0 || y == 0) {
    const double product = x * y;
    return z != 0 ? z : bit_cast<uint64_t>(product) == bit_cast<uint64_t>(z) ? z : zero;
  }
  using namespace exact_arithmetic;
  const Exact u = exact(x), v = exact(y);
  Exact a = normal(u.negative != v.negative, u.exponent + v.exponent, u.units * v.units);
  if (z == 0) return exact_arithmetic::rounded(a, d);
  const Exact w = exact(z);
  Exact b = normal(w.negative, w.exponent, w.units);
  if (a.exponent < b.exponent) std::swap(a, b);
  // Shifted-out bits of the smaller operand set a sticky bit, far below the kept bits.
  const int shift = a.exponent - b.exponent;
  const Exact::Units kept = shift > 127 ? 0 : b.units >> shift;
  b.units = kept | ((shift > 127 ? 0 : kept << shift) != b.units ? 1 : 0);
  if (a.negative == b.negative) {
    a.units += b.units;
  } else {
    if (a.units == b.units) return zero;
    if (a.units < b.units) std::swap(a, b);
    a.units -= b.units;
  }
  return exact_arithmetic::rounded(a, d);
}

}  // namespace tile::cpu::TILE_ISA
