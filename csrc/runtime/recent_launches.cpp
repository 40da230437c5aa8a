// Reads the ring from its newest entry on.
#include "runtime/recent_launches.h"

#include <algorithm>

namespace tile {

std::vector<const char*> RecentLaunches::names() const {
  std::vector<const char*> names;
  const size_t next = next_.load(std::memory_order_relaxed);
  for (size_t back = 1; back <= std::min(next, kernels_.size()); ++back)
    if (const char* name = kernels_[(next - back) % kernels_.size()].load(std::memory_order_relaxed);
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  return names;
}

}  // namespace tile
