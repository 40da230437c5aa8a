// Maps launch keys to compiled kernels. A lookup takes no lock, and entries are never removed.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/executable.h"
#include "support/once.h"

namespace tile {

class KernelTable {
 public:
  KernelTable();
  ~KernelTable();
  using Compile = std::function<std::unique_ptr<Executable>()>;

  // Returns null if the kernel is not compiled yet.
  const Executable* find(const LaunchKey& key) const {
    const Entry* entry = find_entry(*slots_.load(std::memory_order_acquire), key);
    return entry ? entry->ready.load(std::memory_order_acquire) : nullptr;
  }
  // The first caller compiles, and others with the same key wait for it. If it fails, the next caller tries.
  const Executable& compile(const LaunchKey& key, const Compile& compile);

 private:
  struct Entry {
    explicit Entry(const LaunchKey& of) : key(of) {}
    const LaunchKey key;
    Once once;
    std::unique_ptr<Executable> kernel;
    std::atomic<const Executable*> ready = nullptr;
  };
  // A power of two of slots, at most half of them occupied; an entry is in the first free slot from its hash
  // on.
  struct Slots {
    explicit Slots(size_t count) : at(count) {}
    std::vector<std::atomic<Entry*>> at;
  };
  static Entry* find_entry(const Slots& slots, const LaunchKey& key) {
    for (size_t i = key.hash();; ++i) {
      Entry* entry = slots.at[i & (slots.at.size() - 1)].load(std::memory_order_acquire);
      if (!entry || entry->key == key) return entry;
    }
  }
  static void put(Slots& slots, Entry* entry);
  Entry& entry_of(const LaunchKey& key);

  std::vector<std::unique_ptr<Slots>> all_slots_;  // the last one is in use; others may still be read
  std::atomic<const Slots*> slots_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::mutex mutex_;
};

}  // namespace tile
