// Tile operations outside of any kernel, where no code could catch an error, such as in a library's
// initialisers. Their errors are kept, and the operations are recorded in a trace that never runs.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dsl/tracer.h"

namespace tile {

// Returns the trace for an operation outside of a kernel, or throws an error if a handler would catch it.
Tracer& trace_outside(const Location& use);
// Returns where this thread created a Tile of such a trace; nothing for a Tile of any other trace.
std::optional<Location> made_outside(uint32_t variable, uint32_t trace);

// Returns the errors so far, each with its source location. registration_errors() includes them.
std::vector<std::string> namespace_scope_errors();

}  // namespace tile
