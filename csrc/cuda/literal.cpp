// Formats numbers with C++ suffixes, and small floats by their bits.
#include "cuda/literal.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "support/text.h"

namespace tile::cuda {
namespace {

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
  return str(dtype, "{", small_bits(dtype, value), " /* ", show_double(value), " */}");
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
