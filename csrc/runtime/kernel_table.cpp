// Adds kernels to the table.
#include "runtime/kernel_table.h"

namespace tile {

KernelTable::KernelTable() : slots_(all_slots_.emplace_back(std::make_unique<Slots>(8)).get()) {}
KernelTable::~KernelTable() = default;

void KernelTable::put(Slots& slots, Entry* entry) {
  size_t i = entry->key.hash();
  const size_t mask = slots.at.size() - 1;
  while (slots.at[i & mask].load(std::memory_order_relaxed)) ++i;
  slots.at[i & mask].store(entry, std::memory_order_release);
}

KernelTable::Entry& KernelTable::entry_of(const LaunchKey& key) {
  std::lock_guard lock(mutex_);
  if (Entry* known = find_entry(*all_slots_.back(), key)) return *known;
  Entry* added = entries_.emplace_back(std::make_unique<Entry>(key)).get();
  if (entries_.size() * 2 <= all_slots_.back()->at.size()) {
    put(*all_slots_.back(), added);
    return *added;
  }
  auto larger = std::make_unique<Slots>(all_slots_.back()->at.size() * 2);
  for (const auto& entry : entries_) put(*larger, entry.get());
  slots_.store(all_slots_.emplace_back(std::move(larger)).get(), std::memory_order_release);
  return *added;
}

const Executable& KernelTable::compile(const LaunchKey& key, const Compile& compile) {
  Entry& entry = entry_of(key);
  entry.once([&] {
    entry.kernel = compile();
    entry.ready.store(entry.kernel.get(), std::memory_order_release);
  });
  return *entry.kernel;
}

}  // namespace tile
