// The canonical text of a function: names by order of appearance, attributes sorted. parse() reads it.
#pragma once
#include <string>
#include <string_view>

#include "ir/op.h"
#include "support/hash.h"

namespace tile {

std::string print(const Function& function, bool locations = true);
std::string print(const Block& block, bool locations = true);  // values from outside are named %outer0, …
Function parse(std::string_view text);                         // errors have the line and column of the text
Hash128 hash(const Function& function);                        // of the text without locations

}  // namespace tile
