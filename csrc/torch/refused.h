// Declares the list of operators whose definitions were refused, such as for a schema that does not parse. A
// call of such an operator raises the reason.
#pragma once
#include <string>
#include <vector>

namespace tile {

std::vector<std::string> refused_operators();  // their names

}  // namespace tile
