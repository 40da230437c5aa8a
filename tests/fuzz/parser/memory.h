// Counts the bytes that a case asks for.
#pragma once
#include <cstddef>

namespace fuzz {

// A case that asks for more in all than this ends in abort(); 0: any number.
void limit_memory(size_t bytes);

}  // namespace fuzz
