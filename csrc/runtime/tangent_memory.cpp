// Stores the tangent memory of each thread.
#include "runtime/tangent_memory.h"

namespace tile {
namespace {

thread_local TangentMemory* memory = nullptr;

}  // namespace

std::atomic<int> TangentMemory::count_ = 0;

TangentMemory::TangentMemory() {
  TILE_CHECK(!memory, "A forward mode inside another");
  memory = this;
  ++count_;
}
TangentMemory::~TangentMemory() {
  memory = nullptr;
  --count_;
}
TangentMemory* TangentMemory::find() { return memory; }

void TangentMemory::require_none(std::string_view what) {
  if (of_thread())
    fail(ErrorKind::unsupported, what,
         " has no forward-mode derivative, which only kernels of the Tile IR have; use reverse mode");
}

}  // namespace tile
