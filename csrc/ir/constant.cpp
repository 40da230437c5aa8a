// Rounds and wraps compile-time scalars.
#include "ir/constant.h"

#include <bit>
#include <cmath>
#include <limits>

#include "support/error.h"

namespace tile {
namespace {

// Rounds to nearest even with `mantissa` explicit bits and least normal exponent `least`. A value above
// `largest` becomes infinite, or `largest` itself.
double round_mantissa(double value, int mantissa, int least, double largest, bool has_infinity) {
  const double beyond =
      std::copysign(has_infinity ? std::numeric_limits<double>::infinity() : largest, value);
  if (std::isinf(value)) return beyond;
  if (value == 0 || std::isnan(value)) return value;
  int exponent = std::max(std::ilogb(value), least);
  double unit = std::ldexp(1.0, exponent - mantissa);
  double rounded = std::nearbyint(value / unit) * unit;
  if (std::abs(rounded) > largest) return beyond;
  return rounded == 0 ? std::copysign(0.0, value) : rounded;
}

struct Format {
  DType dtype;
  int mantissa, least;
  double largest;
  bool has_infinity;
};
constexpr Format formats[] = {{DType::f8e4m3, 3, -6, 448, false},
                              {DType::f8e5m2, 2, -14, 57344, true},
                              {DType::f16, 10, -14, 65504, true},
                              {DType::bf16, 7, -126, 3.3895313892515355e38, true},
                              {DType::tf32, 10, -126, 3.4011621342146535e38, true},
                              {DType::f32, 23, -126, 3.4028234663852886e38, true}};
const Format* format_of(DType dtype) {  // null for f64, the representation of values
  for (const Format& f : formats)
    if (f.dtype == dtype) return &f;
  return nullptr;
}

}  // namespace

double round_to(DType dtype, double value) {
  const Format* f = format_of(dtype);
  return f ? round_mantissa(value, f->mantissa, f->least, f->largest, f->has_infinity) : value;
}

double largest_of(DType dtype) {
  const Format* f = format_of(dtype);
  return f ? f->largest : std::numeric_limits<double>::max();
}

bool fits(DType dtype, const Attribute& value) {
  const auto* integer = std::get_if<int64_t>(&value);
  if (!is_floating(dtype)) return integer && wrap_to(dtype, *integer) == *integer;
  if (!integer && !std::holds_alternative<double>(value)) return false;
  const Format* f = format_of(dtype);
  const double x = integer ? static_cast<double>(*integer) : std::get<double>(value);
  if (!f || !std::isfinite(x)) return true;
  // Rounds as if there were no largest value.
  return std::abs(round_mantissa(x, f->mantissa, f->least, std::numeric_limits<double>::max(), true)) <=
         f->largest;
}

uint64_t small_bits(DType dtype, double value) {
  const bool infinite = dtype != DType::f8e4m3;
  const int mantissa_bits = dtype == DType::bf16 ? 7 : dtype == DType::f16 ? 10 : infinite ? 2 : 3;
  const int exponent_bits = info(dtype).bits - 1 - mantissa_bits;
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (exponent_bits + mantissa_bits) : 0;
  const uint64_t top = (uint64_t{1} << (exponent_bits + mantissa_bits)) - 1;
  const uint64_t infinity = top - (uint64_t{1} << mantissa_bits) + 1;
  if (std::isnan(value)) return sign | (infinite ? infinity + (uint64_t{1} << (mantissa_bits - 1)) : top);
  if (std::isinf(value)) return sign | (infinite ? infinity : top - 1);
  if (value == 0) return sign;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const auto mantissa = static_cast<uint64_t>(std::ldexp(std::fabs(value), mantissa_bits - exponent));
  // The leading one of a normal number increments the exponent by one.
  return sign | ((static_cast<uint64_t>(exponent + bias - 1) << mantissa_bits) + mantissa);
}

int64_t wrap_to(DType dtype, int64_t value) {
  if (dtype == DType::boolean) return value != 0;
  int unused = 64 - info(dtype).bits;
  if (is_signed(dtype)) return static_cast<int64_t>(static_cast<uint64_t>(value) << unused) >> unused;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << unused >> unused);
}

Constant Constant::of(DType dtype, double value) {
  Constant result{dtype, 0, 0};
  if (is_floating(dtype)) {
    result.floating = round_to(dtype, value);
  } else if (dtype == DType::boolean) {
    result.integer = value != 0;
  } else {
    // Saturates like every target's conversion; NaN becomes 0.
    double low = is_signed(dtype) ? -std::ldexp(1.0, info(dtype).bits - 1) : 0;
    double high = std::ldexp(1.0, info(dtype).bits - (is_signed(dtype) ? 1 : 0));
    if (std::isnan(value))
      result.integer = 0;
    else if (value <= low)
      result.integer = is_signed(dtype) ? static_cast<int64_t>(low) : 0;
    else if (value >= high)
      result.integer = wrap_to(
          dtype, is_signed(dtype) ? static_cast<int64_t>((~0ull >> 1) >> (64 - info(dtype).bits)) : -1);
    else
      result.integer =
          value < 0 ? static_cast<int64_t>(value) : static_cast<int64_t>(static_cast<uint64_t>(value));
  }
  return result;
}

Constant Constant::of(DType dtype, int64_t value) {
  if (is_floating(dtype)) return of(dtype, static_cast<double>(value));
  return {dtype, 0, wrap_to(dtype, value)};
}

Constant Constant::of(DType dtype, const Attribute& value) {
  if (auto* x = std::get_if<double>(&value)) return of(dtype, *x);
  if (auto* x = std::get_if<int64_t>(&value)) return of(dtype, *x);
  fail(ErrorKind::value, "a constant of ", dtype, " needs a number; got ", value);
}

Attribute Constant::attribute() const {
  return is_floating(dtype) ? Attribute(floating) : Attribute(integer);
}

double Constant::as_double() const {
  if (is_floating(dtype)) return floating;
  return dtype == DType::u64 ? static_cast<double>(static_cast<uint64_t>(integer))
                             : static_cast<double>(integer);
}

bool Constant::operator==(const Constant& other) const {
  return dtype == other.dtype && integer == other.integer &&
         (std::bit_cast<uint64_t>(floating) == std::bit_cast<uint64_t>(other.floating) ||
          (std::isnan(floating) && std::isnan(other.floating)));
}

}  // namespace tile
