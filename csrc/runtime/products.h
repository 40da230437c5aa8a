// What a device multiplies, for operators that choose what their products read.
#pragma once
#include "runtime/argument.h"

namespace tile {

// Whether products on the array's device read its dtype as it is. False: they widen it, and what is computed
// would only lose if it were rounded to that dtype before.
bool multiplies_as_it_is(const ArrayArgument& array);

}  // namespace tile
