// Numbers with their C++ suffixes; small floats by their bits.
#include "cuda/literal.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "support/text.h"

namespace tile::cuda {
namespace {

// The fields of a float that `value` fits exactly.
uint64_t small_bits(double value, int exponent_bits, int mantissa_bits, bool infinite) {
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (exponent_bits + mantissa_bits) : 0;
  const uint64_t top = (uint64_t{1} << (exponent_bits + mantissa_bits)) - 1;
  const uint64_t infinity = top - (uint64_t{1} << mantissa_bits) + 1;
  if (std::isnan(value)) return sign | (infinite ? infinity + (uint64_t{1} << (mantissa_bits - 1)) : top);
  if (std::isinf(value)) return sign | (infinite ? infinity : top - 1);
  if (value == 0) return sign;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const auto mantissa = static_cast<uint64_t>(std::ldexp(std::fabs(value), mantissa_bits - exponent));
  // The leading one of a normal number counts the exponent up by one.
  return sign | ((static_cast<uint64_t>(exponent + bias - 1) << mantissa_bits) + mantissa);
}

std::string floating(const Constant& constant) {
  const double value = constant.floating;
  const DType dtype = constant.dtype;
  if (dtype == DType::f64)
    return std::isfinite(value) ? show_double(value)
                                : str("bitcast<f64>(", std::bit_cast<uint64_t>(value), "ull)");
  if (dtype == DType::f32)
    return std::isfinite(value)
               ? show_double(value) + "f"
               : str("bitcast<f32>(", std::bit_cast<uint32_t>(static_cast<float>(value)), "u)");
  if (dtype == DType::tf32) return str("tf32{", floating(Constant::of(DType::f32, value)), "}");
  const uint64_t bits = dtype == DType::bf16     ? small_bits(value, 8, 7, true)
                        : dtype == DType::f16    ? small_bits(value, 5, 10, true)
                        : dtype == DType::f8e5m2 ? small_bits(value, 5, 2, true)
                                                 : small_bits(value, 4, 3, false);
  return str(dtype, "{", bits, " /* ", show_double(value), " */}");
}

}  // namespace

std::string literal(const Constant& constant) {
  const DType dtype = constant.dtype;
  if (is_floating(dtype)) return floating(constant);
  if (dtype == DType::boolean) return constant.integer ? "true" : "false";
  if (dtype == DType::i32)
    return constant.integer == INT32_MIN ? "i32(-2147483647 - 1)" : str(constant.integer);
  if (is_unsigned(dtype)) return str(dtype, "(", static_cast<uint64_t>(constant.integer), "ull)");
  if (constant.integer == INT64_MIN) return "i64(-9223372036854775807ll - 1)";
  return str(dtype, "(", constant.integer, "ll)");
}

}  // namespace tile::cuda
