// Caches node state between launches of a program: each worker has a slot, taken and returned without a lock,
// since all workers ask at the same time.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "cpu/interpreter/frame.h"

namespace tile::cpu {

class NodeStateCache {
 public:
  using Slots = std::vector<NodeStateSlot>;
  NodeStateCache() = default;
  ~NodeStateCache() {
    for (Shard& shard : shards_) delete shard.slots.load();
  }
  // Takes the worker's slots. Returns null if there are none, or if another launch has them.
  std::unique_ptr<Slots> take(int64_t worker) {
    return std::unique_ptr<Slots>(at(worker).exchange(nullptr, std::memory_order_acquire));
  }
  void give_back(int64_t worker, std::unique_ptr<Slots> slots) {
    delete at(worker).exchange(slots.release(), std::memory_order_acq_rel);
  }

 private:
  static constexpr size_t most = 64;  // more workers share shards, so that memory is bounded
  struct alignas(64) Shard {
    std::atomic<Slots*> slots{nullptr};
  };
  std::atomic<Slots*>& at(int64_t worker) { return shards_[static_cast<size_t>(worker) % most].slots; }
  std::array<Shard, most> shards_;
};

}  // namespace tile::cpu
