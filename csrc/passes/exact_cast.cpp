// Compares the value ranges of dtypes, as powers of two.
#include "passes/exact_cast.h"

namespace tile {
namespace {

struct Format {
  DType dtype;
  int digits;          // significant bits, including the implicit one
  int least, largest;  // exponents: of the least positive subnormal, of the largest value
  bool infinity;
};
constexpr Format formats[] = {{DType::f8e4m3, 4, -9, 8, false},   {DType::f8e5m2, 3, -16, 15, true},
                              {DType::f16, 11, -24, 15, true},    {DType::bf16, 8, -133, 127, true},
                              {DType::tf32, 11, -136, 127, true}, {DType::f32, 24, -149, 127, true},
                              {DType::f64, 53, -1074, 1023, true}};

Format format_of(DType dtype) {
  for (const Format& format : formats)
    if (format.dtype == dtype) return format;
  int digits = dtype == DType::boolean ? 1 : info(dtype).bits - is_signed(dtype);
  // A signed type also has -2^digits, whose single significant bit every wider type can represent.
  return {dtype, digits, 0, is_signed(dtype) ? digits : digits - 1, false};
}

}  // namespace

bool cast_is_exact(DType from, DType to) {
  if (from == to) return true;
  Format x = format_of(from), y = format_of(to);
  if (!is_floating(to)) {
    if (is_floating(from) || to == DType::boolean) return false;
    return y.digits >= x.digits && (is_signed(to) || !is_signed(from));
  }
  return y.digits >= x.digits && y.least <= x.least && y.largest >= x.largest && (y.infinity || !x.infinity);
}

bool skips_cast(DType from, DType between, DType to) {
  if (!cast_is_exact(from, between)) return false;
  // A float saturates when it is converted to an integer, where an integer would wrap.
  bool saturates = is_floating(between) && !is_floating(from) && is_integer(to);
  return !saturates || cast_is_exact(from, to);
}

}  // namespace tile
