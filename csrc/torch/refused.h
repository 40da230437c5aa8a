// Definitions that were refused, as those with a schema that does not parse: who calls such a name is told
// why.
#pragma once
#include <string>
#include <vector>

namespace tile {

std::vector<std::string> refused_operators();  // their names

}  // namespace tile
