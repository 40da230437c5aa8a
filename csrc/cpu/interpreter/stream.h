// Stores that bypass the caches, for results too large to be read again soon: lines are not fetched first.
#pragma once
#include <cstdint>

namespace tile::cpu {

// Arrays from this size on are written so: what the last-level cache of one core's share would not keep.
inline constexpr int64_t stream_from_bytes = int64_t{16} << 20;

// Before other threads may read what was written.
inline void finish_streams() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace tile::cpu
