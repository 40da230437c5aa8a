// Stores the derivation of each thread, and says what takes no part in one.
#include "runtime/derivation.h"

#include <utility>

#include "runtime/launch_record.h"
#include "runtime/tangent_memory.h"

namespace tile {
namespace {

thread_local Derivation* derivation = nullptr;

}  // namespace

std::atomic<int> Derivation::count_ = 0;

Derivation::Derivation() {
  TILE_CHECK(!derivation, "A derivation inside another");
  derivation = this;
  ++count_;
}
Derivation::~Derivation() {
  derivation = nullptr;
  --count_;
}
Derivation::Pause::Pause() : paused_(std::exchange(derivation, nullptr)) {}
Derivation::Pause::~Pause() { derivation = paused_; }
Derivation* Derivation::find() { return derivation; }

void TangentMemory::refuse(std::string_view what) const {
  fail(ErrorKind::unsupported, what,
       " has no forward-mode derivative, which only kernels of the Tile IR have; use reverse mode");
}
void LaunchRecord::refuse(std::string_view what) const {
  fail(ErrorKind::unsupported, what,
       " has no derived gradient, which only kernels of the Tile IR have; write the gradient by hand");
}

}  // namespace tile
