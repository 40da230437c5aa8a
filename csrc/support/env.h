// The environment variables that are read: TILE_DUMP, TILE_ISA, TILE_ASSEMBLER.
#pragma once
#include <cstdlib>
#include <string>

namespace tile {

inline std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

}  // namespace tile
