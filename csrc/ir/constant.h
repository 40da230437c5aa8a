// A compile-time scalar, in one of three representations according to its dtype.
#pragma once
#include <cstdint>
#include <ostream>

#include "ir/attribute.h"
#include "ir/dtype.h"

namespace tile {

struct Constant {
  DType dtype = DType::i32;
  double floating = 0;  // floating dtypes: the value, already rounded to dtype
  int64_t integer = 0;  // bool and integers; u64 as its two's complement bits

  static Constant of(DType dtype, double value);  // rounds or wraps to dtype
  static Constant of(DType dtype, int64_t value);
  static Constant of(DType dtype, int value) { return of(dtype, static_cast<int64_t>(value)); }
  static Constant of(DType dtype, const Attribute& value);
  Attribute attribute() const;
  double as_double() const;
  bool operator==(const Constant&) const;  // equal bits: NaN equals NaN, 0 differs from -0
};

double round_to(DType dtype, double value);  // to nearest even
double largest_of(DType dtype);              // the largest finite value of a floating dtype
// Returns true if the value is of the dtype's kind and in range (for floats after rounding).
bool fits(DType dtype, const Attribute& value);
uint64_t small_bits(DType dtype, double value);  // of a value of a floating dtype with 8 or 16 bits
int64_t wrap_to(DType dtype, int64_t value);     // two's complement in an integer dtype; bool: != 0

}  // namespace tile
