// Keeps packed operands of blocked products, and waits for those that other threads pack.
#include "cpu/gemm/packed_operand_cache.h"

#include <thread>

namespace tile::cpu {
namespace {
// Packing a part takes some tens of microseconds. If the wait is longer, the packing thread is probably not
// running.
constexpr int spins_before_yield = 4000;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}
}  // namespace

void PackedOperandCache::Held::wait(int64_t parts) const {
  for (int spin = 0; entry_->done.load(std::memory_order_acquire) != parts; ++spin)
    if (spin < spins_before_yield)
      pause();
    else
      std::this_thread::yield();
}

PackedOperandCache::Held PackedOperandCache::hold(const Key& key, size_t bytes, size_t limit) {
  const std::lock_guard lock(mutex_);
  Entry* idle = nullptr;
  for (const auto& entry : entries_) {
    if (entry->key == key) {
      ++entry->users;
      return {*this, *entry};
    }
    if (entry->users == 0 && (!idle || entry->last_use < idle->last_use)) idle = entry.get();
  }
  const bool is_free = idle && !idle->key.data;
  if (!idle || (!is_free && entries_.size() < limit))
    idle = entries_.emplace_back(std::make_unique<Entry>()).get();
  idle->key = {};
  idle->memory.at_least(bytes);
  idle->key = key;
  idle->users = 1;
  idle->taken = idle->done = 0;
  return {*this, *idle};
}

void PackedOperandCache::release(Entry& entry) {
  const std::lock_guard lock(mutex_);
  --entry.users;
  entry.last_use = ++clock_;
}

void PackedOperandCache::clear() {
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) {
    entry->key = {};
    entry->last_use = 0;
  }
}

namespace {
struct Idle {
  std::mutex mutex;
  std::vector<std::unique_ptr<PackedOperands>> panels;
};
Idle& idle_panels() {
  static Idle& idle = *new Idle;  // never destroyed: threads may outlive static destruction
  return idle;
}
}  // namespace

LaunchPackedOperands::LaunchPackedOperands(int threads) {
  Idle& idle = idle_panels();
  {
    const std::lock_guard lock(idle.mutex);
    if (!idle.panels.empty()) {
      panels_ = std::move(idle.panels.back());
      idle.panels.pop_back();
    }
  }
  if (!panels_) panels_ = std::make_unique<PackedOperands>();
  panels_->threads = threads;
  panels_->clear();
}
LaunchPackedOperands::~LaunchPackedOperands() {
  Idle& idle = idle_panels();
  const std::lock_guard lock(idle.mutex);
  idle.panels.push_back(std::move(panels_));
}

}  // namespace tile::cpu
