// Tracks the happens-before relation of blocks: up to which of its barriers another block's accesses are
// visible. A release stores this at an address; an acquire reads it there.
#include <algorithm>
#include <unordered_map>

#include "block.h"
#include "clocks.h"
#include "memory.h"

namespace tile::emulator {
namespace {

using Known = std::unordered_map<int, unsigned>;  // epochs, by block
std::unordered_map<int, Known> known_to;          // by block
std::unordered_map<const void*, Known> left_at;
// The same within a cluster whose warpgroups run different code.
struct LeftClock {
  int cluster = -1;
  Clock clock;
};
std::unordered_map<const void*, LeftClock> clock_at;

void add(Known& to, const Known& from) {
  for (const auto& [block, epoch] : from) to[block] = std::max(to[block], epoch);
}

}  // namespace

void forget_releases() {
  known_to.clear();
  left_at.clear();
  clock_at.clear();
}

// A change of a value keeps what earlier releases have stored there.
void release_at(const void* at) {
  Known& left = left_at[at];
  add(left, known_to[here.block_number]);
  left[here.block_number] = here.epoch;
  if (!here.grouped) return;
  LeftClock& known = clock_at[at];
  if (known.cluster != here.cluster) known = {here.cluster, {}};
  known.clock.join(own_clock());
  tick(running_thread());
}
void acquire_at(const void* at) {
  if (const auto left = left_at.find(at); left != left_at.end())
    add(known_to[here.block_number], left->second);
  if (!here.grouped) return;
  if (const auto left = clock_at.find(at); left != clock_at.end() && left->second.cluster == here.cluster)
    own_clock().join(left->second.clock);
}
bool acquired(int block, unsigned epoch) {
  const auto known = known_to.find(here.block_number);
  if (known == known_to.end()) return false;
  const auto of = known->second.find(block);
  return of != known->second.end() && epoch < of->second;
}

}  // namespace tile::emulator
