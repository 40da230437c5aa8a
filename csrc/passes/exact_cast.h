// Conversions that preserve every value, so that a cast between two others can be removed.
#pragma once
#include "ir/dtype.h"

namespace tile {

bool cast_is_exact(DType from, DType to);              // every value of `from` is one of `to`
bool skips_cast(DType from, DType between, DType to);  // from -> between -> to equals from -> to

}  // namespace tile
