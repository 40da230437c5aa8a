// Dtypes that a device multiplies, for operators that choose their operands' dtypes.
#pragma once
#include "runtime/argument.h"

namespace tile {

// Returns true if products on the array's device read its dtype as it is. False: they widen it, and what is
// computed would only lose if it were rounded to that dtype before.
bool multiplies_as_it_is(const ArrayArgument& array);

}  // namespace tile
