// Names that a kernel in CUDA C++ cannot have.
#pragma once
#include <string_view>

namespace tile::cuda {

// A word of C++, a function or variable of CUDA, or a name of the device library.
bool is_taken(std::string_view name);

}  // namespace tile::cuda
