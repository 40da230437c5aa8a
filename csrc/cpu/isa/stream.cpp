// The end of non-temporal stores.
#include "cpu/stream.h"

#include "cpu/isa/simd.h"

namespace tile::cpu::TILE_ISA {
namespace {

void finish() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace

extern const StreamTable stream_table;
const StreamTable stream_table{finish};

}  // namespace tile::cpu::TILE_ISA
