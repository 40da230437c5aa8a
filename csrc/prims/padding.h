// The value that a load returns for elements outside the array, as an attribute of its dtype.
#pragma once
#include "dsl/tile.h"

namespace tile {

inline Attribute padding_of(const char* operation, DType dtype, double pad, const Location& at) {
  if (is_floating(dtype)) return round_to(dtype, pad);
  if (pad != 0)
    fail(at, ErrorKind::value, operation, ": a ", dtype, " array is padded with 0, not ", show_double(pad));
  return int64_t{0};
}

}  // namespace tile
