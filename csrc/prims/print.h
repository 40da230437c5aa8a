// Output of a running kernel, for debugging.
#pragma once
#include <string_view>

#include "dsl/tile.h"

namespace tile {

// As C's printf, to the process's standard output: a conversion a value, d i u o x X for integers and bool,
// e E f F g G a A for floats; of a tile every element, "[[0, 1], [2, 3]]". A block prints in the order of the
// program; what several blocks print may be mixed, on a GPU also within a line that holds tiles. On a CPU it
// is there when the launch returns, on a GPU after the next synchronisation, and of more than the driver's
// buffer holds (1 MB) the beginning is lost.
void print(std::string_view format, std::initializer_list<Operand> values = {},
           Location location = Location::current());

}  // namespace tile
