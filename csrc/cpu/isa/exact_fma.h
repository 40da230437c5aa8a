// x*y + z of doubles rounded once in a direction, in integers: for chips without the instruction.
#pragma once
#include "cpu/isa/vec.h"

namespace tile::cpu::TILE_ISA {

// As the control register of x86 numbers them.
enum class Direction { nearest = 0, down = 1, up = 2, zero = 3 };

namespace whole {

// (-1)^negative * nodes * 2^exponent, nodes not 0 and below 2^126, of which most have 2^125.
struct Exact {
  __extension__ typedef unsigned __int128 OpNodes;
  bool negative;
  int exponent;
  OpNodes nodes;
};
TILE_INLINE int top_bit(Exact::OpNodes x) {
  const uint64_t high = static_cast<uint64_t>(x >> 64);
  return high ? 127 - __builtin_clzll(high) : 63 - __builtin_clzll(static_cast<uint64_t>(x));
}
TILE_INLINE Exact normal(bool negative, int exponent, Exact::OpNodes nodes) {
  const int shift = 125 - top_bit(nodes);
  return {negative, exponent - shift, nodes << shift};
}
// Finite and not 0.
TILE_INLINE Exact exact(double x) {
  const uint64_t bits = bit_cast<uint64_t>(x), fraction = bits & ((1ull << 52) - 1);
  const int exponent = static_cast<int>(bits >> 52 & 2047);
  return {bits >> 63 != 0, (exponent ? exponent : 1) - 1075, fraction | (exponent ? 1ull << 52 : 0)};
}

TILE_INLINE double rounded(Exact x, Direction d) {
  const bool away = d == Direction::zero ? false : (d == Direction::down) == x.negative;
  const int wanted = top_bit(x.nodes) + x.exponent - 52, last = wanted < -1074 ? -1074 : wanted;
  const int drop = last - x.exponent;
  uint64_t bits, rest = 0;
  if (drop <= 0) {
    bits = static_cast<uint64_t>(x.nodes << -drop);
  } else if (drop > 127) {
    bits = 0, rest = 1;
  } else {
    bits = static_cast<uint64_t>(x.nodes >> drop);
    rest = (x.nodes & ((Exact::OpNodes(1) << drop) - 1)) != 0;
  }
  // The leading one counts the exponent up, as does what is carried beyond it.
  bits += (static_cast<uint64_t>(last + 1074) << 52) + (away ? rest : 0);
  constexpr uint64_t infinity = 2047ull << 52;
  if (bits >= infinity) bits = away ? infinity : infinity - 1;
  return bit_cast<double>(bits | static_cast<uint64_t>(x.negative) << 63);
}

}  // namespace whole

TILE_INLINE double exact_fma(double x, double y, double z, Direction d) {
  constexpr double largest = 0x1.fffffffffffffp1023;
  if (!(__builtin_fabs(x) <= largest && __builtin_fabs(y) <= largest)) return x * y + z;
  if (!(__builtin_fabs(z) <= largest)) return z + z;
  const double zero = d == Direction::down ? -0.0 : 0.0;
  if (x == 0 || y == 0) {
    const double product = x * y;
    return z != 0 ? z : bit_cast<uint64_t>(product) == bit_cast<uint64_t>(z) ? z : zero;
  }
  using namespace whole;
  const Exact u = exact(x), v = exact(y);
  Exact a = normal(u.negative != v.negative, u.exponent + v.exponent, u.nodes * v.nodes);
  if (z == 0) return whole::rounded(a, d);
  const Exact w = exact(z);
  Exact b = normal(w.negative, w.exponent, w.nodes);
  if (a.exponent < b.exponent) std::swap(a, b);
  // Bits of the smaller one that fall out leave a one behind, far below what is kept.
  const int shift = a.exponent - b.exponent;
  const Exact::OpNodes kept = shift > 127 ? 0 : b.nodes >> shift;
  b.nodes = kept | ((shift > 127 ? 0 : kept << shift) != b.nodes ? 1 : 0);
  if (a.negative == b.negative) {
    a.nodes += b.nodes;
  } else {
    if (a.nodes == b.nodes) return zero;
    if (a.nodes < b.nodes) std::swap(a, b);
    a.nodes -= b.nodes;
  }
  return whole::rounded(a, d);
}

}  // namespace tile::cpu::TILE_ISA
