// Stores that bypass the caches, for results too large to be read again soon: lines are not fetched first.
#pragma once
#include <cstdint>

#include "cpu/isa.h"

namespace tile::cpu {

struct StreamTable {
  void (*finish)();  // before other threads may read what was written
};
TILE_DECLARE_ISA_TABLE(StreamTable, stream_table);

// Arrays from this size on are written so: what the last-level cache of one core's share would not keep.
inline constexpr int64_t stream_from_bytes = int64_t{32} << 20;

}  // namespace tile::cpu
