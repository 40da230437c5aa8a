// Which tiles are never copied out of memory.
#pragma once
#include "cpu/lower.h"

namespace tile::cpu {

// The load whose memory a tile still is at run time, seen through views and casts that keep lanes; null:
// none.
const Op* memory_load(const Lower& lower, const Value* value);

}  // namespace tile::cpu
