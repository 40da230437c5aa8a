// The rows of prims/elementwise for one lane, implemented with std functions and 128-bit integers.
#pragma once
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace tile::cpu::testing {

// The quotient of floats rounded to minus infinity, from the exact remainder.
template <class T>
T floor_divide(T x, T y) {
  if (y == 0) return x / y;
  long double rest = std::fmod(x, y);
  if (rest != 0 && (rest < 0) != (y < 0)) rest += y;
  const long double quotient = (static_cast<long double>(x) - rest) / y;
  if (std::isinf(y) && std::isfinite(x))
    return x != 0 && (x < 0) != (y < 0) ? T(-1) : std::copysign(T(0), x / y);
  return quotient == 0 ? std::copysign(T(0), x / y) : static_cast<T>(std::nearbyint(quotient));
}
template <class T>
T floor_remainder(T x, T y) {
  const T rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

// Computes f with a rounding direction. The variables are volatile, so that f reads its operands and has its
// result while the direction is set.
template <class W, class F>
W in_direction(int direction, F f) {
  const int before = std::fegetround();
  std::fesetround(direction);
  volatile W result = f();
  std::fesetround(before);
  return result;
}
// Rounds to a format with `mantissa` explicit bits; the direction may be to nearest with halves away from
// zero.
constexpr int halves_away = -1;
template <class W>
W round_in_direction(int direction, W x, int mantissa, int least, double largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), least) - mantissa;
  const double units = std::ldexp(static_cast<double>(x), -exponent);
  const double whole = std::copysign(direction == FE_DOWNWARD   ? std::floor(units)
                                     : direction == FE_UPWARD   ? std::ceil(units)
                                     : direction == halves_away ? std::round(units)
                                                                : std::trunc(units),
                                     units);
  const double result = std::ldexp(whole, exponent);
  if (std::fabs(result) <= largest) return static_cast<W>(result);
  const bool away = direction == halves_away || direction == (x < 0 ? FE_DOWNWARD : FE_UPWARD);
  return static_cast<W>(std::copysign(away ? INFINITY : largest, static_cast<double>(x)));
}

// Lanes computed in W, or predicates.
template <class W>
W float_reference(std::string_view name, W x, W y, W z) {
#define ROW(row, value) \
  if (name == #row) return static_cast<W>(value)
  ROW(neg, -x);
  ROW(abs, std::fabs(x));
  ROW(exp, std::exp(x));
  ROW(exp2, std::exp2(x));
  ROW(expm1, std::expm1(x));
  ROW(log, std::log(x));
  ROW(log2, std::log2(x));
  ROW(log1p, std::log1p(x));
  ROW(sqrt, std::sqrt(x));
  ROW(rsqrt, 1 / std::sqrt(x));
  ROW(sin, std::sin(x));
  ROW(cos, std::cos(x));
  ROW(tan, std::tan(x));
  ROW(sinh, std::sinh(x));
  ROW(cosh, std::cosh(x));
  ROW(tanh, std::tanh(x));
  ROW(asin, std::asin(x));
  ROW(acos, std::acos(x));
  ROW(atan, std::atan(x));
  ROW(erf, std::erf(x));
  ROW(sigmoid, 1 / (1 + std::exp(-x)));
  ROW(silu, x / (1 + std::exp(-x)));
  ROW(floor, std::floor(x));
  ROW(ceil, std::ceil(x));
  ROW(round, std::nearbyint(x));
  ROW(trunc, std::trunc(x));
  ROW(isnan, std::isnan(x));
  ROW(isinf, std::isinf(x));
  ROW(to_bool, !(x == 0));
  ROW(add, x + y);
  ROW(sub, x - y);
  ROW(mul, x * y);
  ROW(div, x / y);
  ROW(floordiv, floor_divide(x, y));
  ROW(mod, floor_remainder(x, y));
  ROW(pow, std::pow(x, y));
  ROW(atan2, std::atan2(x, y));
  ROW(minimum, std::fmin(x, y));
  ROW(maximum, std::fmax(x, y));
  ROW(eq, x == y);
  ROW(ne, x != y);
  ROW(lt, x < y);
  ROW(le, x <= y);
  ROW(gt, x > y);
  ROW(ge, x >= y);
  ROW(fma, std::fma(x, y, z));
  ROW(sign, x > 0 ? W(1) : x < 0 ? W(-1) : x);
  ROW(isfinite, std::isfinite(x));
  ROW(minimum_nan, std::isnan(x) ? x : std::isnan(y) ? y : std::fmin(x, y));
  ROW(maximum_nan, std::isnan(x) ? x : std::isnan(y) ? y : std::fmax(x, y));
  ROW(flush_subnormal, std::fabs(x) < W(0x1p-126) ? std::copysign(W(0), x) : x);
  volatile W a = x, b = y, c = z;
#define DIRECTED(mode, direction)                                                                 \
  ROW(sqrt_##mode, in_direction<W>(direction, [&] { return std::sqrt(W(a)); }));                  \
  ROW(add_##mode, in_direction<W>(direction, [&] { return a + b; }));                             \
  ROW(sub_##mode, in_direction<W>(direction, [&] { return a - b; }));                             \
  ROW(mul_##mode, in_direction<W>(direction, [&] { return a * b; }));                             \
  ROW(div_##mode, in_direction<W>(direction, [&] { return a / b; }));                             \
  ROW(fma_##mode, in_direction<W>(direction, [&] { return std::fma(W(a), W(b), W(c)); }));        \
  ROW(f32_##mode, round_in_direction(direction, x, 23, -126, std::numeric_limits<float>::max())); \
  ROW(f16_##mode, round_in_direction(direction, x, 10, -14, 65504));                              \
  ROW(bf16_##mode, round_in_direction(direction, x, 7, -126, 0x1.fep127));                        \
  ROW(tf32_##mode, round_in_direction(direction, x, 10, -126, 0x1.ffcp127))
  DIRECTED(rz, FE_TOWARDZERO);
  DIRECTED(rm, FE_DOWNWARD);
  DIRECTED(rp, FE_UPWARD);
#undef DIRECTED
  ROW(f32_ra, round_in_direction(halves_away, x, 23, -126, std::numeric_limits<float>::max()));
  ROW(f16_ra, round_in_direction(halves_away, x, 10, -14, 65504));
  ROW(tf32_ra, round_in_direction(halves_away, x, 10, -126, 0x1.ffcp127));
  ADD_FAILURE() << "no reference for " << name;
  return 0;
}

// The result before it wraps to the lane's width.
inline __int128 integer_reference(std::string_view name, __int128 x, __int128 y, int bits) {
  using I = __int128;
  using W = I;
  auto quotient = [&] {
    I q = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
  };
  const bool wide = y < 0 || y >= bits;
  ROW(neg, -x);
  ROW(abs, x < 0 ? -x : x);
  ROW(sign, (x > 0) - (x < 0));
  ROW(bitwise_not, ~x);
  ROW(to_bool, x != 0);
  ROW(logical_not, x == 0);
  ROW(add, x + y);
  ROW(sub, x - y);
  ROW(mul, static_cast<unsigned __int128>(x) * static_cast<unsigned __int128>(y));
  ROW(floordiv, y == 0 ? 0 : quotient());
  ROW(mod, y == 0 ? 0 : x - quotient() * y);
  ROW(cdiv, y == 0 ? 0 : x % y == 0 ? x / y : quotient() + 1);
  ROW(minimum, x < y ? x : y);
  ROW(maximum, x > y ? x : y);
  ROW(bitwise_and, x & y);
  ROW(bitwise_or, x | y);
  ROW(bitwise_xor, x ^ y);
  ROW(shift_left, wide ? 0 : static_cast<unsigned __int128>(x) << y);
  ROW(shift_right, wide ? (x < 0 ? -1 : 0) : x >> y);
  ROW(eq, x == y);
  ROW(ne, x != y);
  ROW(lt, x < y);
  ROW(le, x <= y);
  ROW(gt, x > y);
  ROW(ge, x >= y);
  ADD_FAILURE() << "no reference for " << name;
  return 0;
}
#undef ROW

}  // namespace tile::cpu::testing
