// Which packed operands are kept.
#include "cpu/packed_tiles.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace tile::cpu {
namespace {
constexpr size_t most_entries = 64, least_entries = 4, most_bytes = size_t{4} << 20;
}

void PackedTiles::Free::operator()(char* p) const { std::free(p); }

PackedTiles::Place PackedTiles::find(const Key& key, size_t bytes) {
  const size_t limit = std::clamp(most_bytes / std::max<size_t>(bytes, 1), least_entries, most_entries);
  size_t at = limit;
  for (size_t i = 0; i < used_.size(); ++i) {
    if (used_[i] == key.data && entries_[i].key == key) {
      last_ = i;
      return {entries_[i].memory.get(), true};
    }
    if (!used_[i] && i < limit) at = i;
  }
  if (at == limit && used_.size() < limit) {
    at = used_.size();
    used_.push_back(nullptr);
    entries_.emplace_back();
  } else if (at == limit) {  // any: the oldest would be the wrong one for loops over more tiles than there
                             // are entries
    random_ = random_ * 1664525 + 1013904223;
    at = (random_ >> 16) % limit;
    if (at == last_) at = (at + 1) % limit;
  }
  Entry& entry = entries_[at];
  used_[at] = nullptr;
  if (bytes > entry.capacity) {
    entry.capacity = 0;
    entry.memory.reset(static_cast<char*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
    if (!entry.memory) throw std::bad_alloc();
    entry.capacity = bytes;
  }
  entry.key = key;
  used_[at] = key.data;
  last_ = at;
  return {entry.memory.get(), false};
}

}  // namespace tile::cpu
