// Formats constants as C++ source.
#pragma once
#include <string>

#include "ir/constant.h"

namespace tile::cuda {

std::string literal(const Constant& constant);

}  // namespace tile::cuda
