// Counts the sectors that one warp's accesses touch.
#include "cuda/access_cost.h"

#include <set>
#include <vector>

namespace tile::cuda {

int64_t access_cost(const Layout& layout, int unit, int together, int element_bytes, int warps) {
  constexpr int lanes = 32, sector_bytes = 32;
  constexpr int64_t sector = 1, access = 1;  // half cycles: 64 bytes per cycle
  std::set<std::vector<int64_t>> sectors;
  // One register suffices: the others only shift the addresses.
  for (int lane = 0; lane < lanes; ++lane) {
    std::vector<int64_t> at;
    for (int axis = 0; axis < layout.rank(); ++axis) {
      const int64_t first = layout.of_thread(axis, lane);
      at.push_back(axis == unit ? first * element_bytes / sector_bytes : first);
    }
    sectors.insert(at);
    if (unit < 0) continue;
    const int64_t last = layout.of_thread(unit, lane) + together - 1;
    at[static_cast<size_t>(unit)] = last * element_bytes / sector_bytes;
    sectors.insert(std::move(at));
  }
  const int64_t accesses = layout.registers() / together;
  return warps * accesses * (static_cast<int64_t>(sectors.size()) * sector + access);
}

}  // namespace tile::cuda
