// Stores that bypass the caches, for results that are too large to be read again soon: cache lines are not
// fetched first.
#pragma once
#include <cstdint>

namespace tile::cpu {

// The size from which arrays are streamed: more than one core's share of the last-level cache.
inline constexpr int64_t stream_from_bytes = int64_t{16} << 20;

// Called before other threads may read the written data.
inline void finish_streams() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace tile::cpu
