// Operations on tiles outside of any kernel that nobody would catch an error of: at namespace scope, where a
// library's initialisers run. They are kept as errors, and recorded in a trace that nobody runs.
#pragma once
#include <string>
#include <vector>

#include "dsl/tracer.h"

namespace tile {

// The trace for an operation outside of a kernel. Error: somebody catches it.
Tracer& trace_outside(const Location& use);
// Whether a Tile belongs to that trace; where it was made.
const Location* made_outside(uint32_t variable, uint32_t trace);

// What was met so far, each with its place; registration_errors() has them too.
std::vector<std::string> namespace_scope_errors();

}  // namespace tile
