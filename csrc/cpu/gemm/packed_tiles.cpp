// Chooses which packed operands are kept.
#include "cpu/gemm/packed_tiles.h"

#include <algorithm>

namespace tile::cpu {
namespace {
constexpr size_t most_entries = 64, least_entries = 4;
constexpr size_t most_bytes = size_t{5} << 20;  // per thread
}  // namespace

size_t PackedTiles::limit(size_t bytes) {
  return std::clamp(most_bytes / std::max<size_t>(bytes, 1), least_entries, most_entries);
}

PackedTiles::Buffer PackedTiles::find(const Key& key, size_t bytes) {
  const size_t limit = PackedTiles::limit(bytes);
  size_t at = limit;
  for (size_t i = 0; i < used_.size(); ++i) {
    if (used_[i] == key.data && entries_[i].key == key) {
      last_ = i;
      return {entries_[i].memory.data(), true};
    }
    if (!used_[i] && i < limit) at = i;
  }
  if (at == limit && used_.size() < limit) {
    at = used_.size();
    used_.push_back(nullptr);
    entries_.emplace_back();
  } else if (at == limit) {
    // A random entry: evicting the oldest would fail for loops over more tiles than there are entries.
    random_ = random_ * 1664525 + 1013904223;
    at = (random_ >> 16) % limit;
    if (at == last_) at = (at + 1) % limit;
  }
  Entry& entry = entries_[at];
  used_[at] = nullptr;
  entry.memory.at_least(bytes);
  entry.key = key;
  used_[at] = key.data;
  last_ = at;
  return {entry.memory.data(), false};
}

}  // namespace tile::cpu
