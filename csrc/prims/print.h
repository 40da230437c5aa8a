// Output of a running kernel, for debugging.
#pragma once
#include <string_view>

#include "dsl/tile.h"

namespace tile {

// Prints like C's printf to the process's standard output, with one conversion per value: d i u o x X for
// integers and bool, e E f F g G a A for floats. Of a tile every element is printed: "[[0, 1], [2, 3]]". A
// block prints in program order. The output of several blocks may be mixed, on a GPU also within a line that
// has tiles. On a CPU the output is complete when the launch returns, on a GPU after the next
// synchronisation; if it exceeds the driver's buffer (1 MB), its beginning is lost.
void print(std::string_view format, std::initializer_list<Operand> values = {},
           Location location = Location::current());

}  // namespace tile
