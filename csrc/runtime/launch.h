// Runs a compiled program on launch arguments.
#pragma once
#include <string>
#include <vector>

#include "cpu/program.h"
#include "runtime/argument.h"
#include "support/location.h"

namespace tile {

// Errors name the kernel and the place it was defined: bad grids, arrays on several devices, extents too
// large.
void run_program(const cpu::Program& program, const std::string& name, const Location& where, Grid grid,
                 const std::vector<Argument>& arguments);

}  // namespace tile
