// Reads environment variables: TILE_DUMP, TILE_LOG, TILE_PROGRESS, TILE_ISA, TILE_AMX, TILE_ASSEMBLER,
// TILE_WGMMA, TILE_PAIRS, TILE_NVRTC, TILE_CUDA_DRIVER, TILE_CACHE_DIR, TILE_CACHE_MB, TILE_PACKS,
// TILE_RECORD, and the standard TERM.
#pragma once
#include <cstdlib>
#include <string>

namespace tile {

inline std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

}  // namespace tile
