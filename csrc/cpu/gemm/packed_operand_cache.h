// A cache of packed operands of blocked products: threads that need the same operand pack it together and
// share it.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cpu/gemm/packed_tiles.h"
#include "support/aligned_memory.h"

namespace tile::cpu {

class PackedOperandCache {
 public:
  using Key = PackedTiles::Key;

 private:
  struct Entry {
    Key key;
    AlignedMemory memory;
    int users = 0;
    uint64_t last_use = 0;
    std::atomic<int64_t> taken{0}, done{0};  // parts
  };

 public:
  // A reference that keeps an operand in the cache.
  class Held {
   public:
    Held(PackedOperandCache& owner, Entry& entry) : owner_(&owner), entry_(&entry) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { owner_->release(*entry_); }
    char* data() const { return entry_->memory.data(); }

    // Calls pack(part) for parts that no other thread has taken; returns when all are packed. `pack` must not
    // throw.
    template <class F>
    void fill(int64_t parts, F pack) const {
      if (entry_->done.load(std::memory_order_acquire) == parts) return;
      for (int64_t part; (part = entry_->taken.fetch_add(1, std::memory_order_relaxed)) < parts;) {
        pack(part);
        entry_->done.fetch_add(1, std::memory_order_release);
      }
      wait(parts);
    }

   private:
    void wait(int64_t parts) const;
    PackedOperandCache* owner_;
    Entry* entry_;
  };

  // Returns the key's operand, filled or not. Beyond `limit` operands, the one that has been idle longest is
  // evicted.
  Held hold(const Key& key, size_t bytes, size_t limit);
  // Drops all operands between launches, when the source memory may have changed.
  void clear();

 private:
  void release(Entry& entry);
  std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_;
  uint64_t clock_ = 0;
};

// The caches for both operands of blocked products, for `threads` threads of a launch.
struct PackedOperands {
  PackedOperandCache left, right;
  int threads = 1;
  void clear() {
    left.clear();
    right.clear();
  }
};

// The caches of one launch, reused from previous launches.
class LaunchPackedOperands {
 public:
  explicit LaunchPackedOperands(int threads);
  ~LaunchPackedOperands();
  LaunchPackedOperands(const LaunchPackedOperands&) = delete;
  LaunchPackedOperands& operator=(const LaunchPackedOperands&) = delete;
  PackedOperands* get() const { return panels_.get(); }

 private:
  std::unique_ptr<PackedOperands> panels_;
};

}  // namespace tile::cpu
