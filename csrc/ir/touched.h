// Finds the parameters whose memory a function accesses.
#pragma once
#include <cstdint>

namespace tile {

class Function;

// One bit for each of a function's first 64 parameters: set if the function writes, or reads, its memory, or
// picks elements of it.
struct Touched {
  uint64_t written = 0, read = 0, picked = 0;
};
Touched touched_parameters(const Function& function);

}  // namespace tile
