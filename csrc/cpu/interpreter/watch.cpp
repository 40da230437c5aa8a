// Checks for interruptions during a launch, and computes how often to check.
#include "cpu/interpreter/watch.h"

#include <algorithm>

namespace tile::cpu {
namespace {

constexpr auto between_checks = std::chrono::milliseconds(50);
constexpr double cost_between_looks = 65536;  // in elements, as cost_of counts them
constexpr int most_iterations = 1024;         // upper limit for cheap iterations
constexpr int spins_before_sleep = 4000;      // in a balanced launch the other threads end sooner

std::atomic<void (*)()> interruption{nullptr};

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void set_interruption(void (*check)()) { interruption = check; }

Watch::Running::~Running() {
  if (watch_.running_.fetch_sub(1, std::memory_order_acq_rel) != 2) return;
  const std::lock_guard lock(watch_.mutex_);  // the launching thread waits, or is about to
  watch_.ended_.notify_one();
}

void Watch::wait_for_others() {
  if (!interruption.load(std::memory_order_relaxed)) return;
  const auto no_others = [&] { return running_.load(std::memory_order_acquire) <= 1; };
  for (int spin = 0; spin < spins_before_sleep; ++spin) {
    if (no_others()) return;
    pause();
  }
  for (bool done = false; !done;) {
    {
      std::unique_lock lock(mutex_);
      done = ended_.wait_for(lock, between_checks, no_others);
    }
    if (!done) ask();
  }
}

void Watch::ask() {
  const auto check = interruption.load(std::memory_order_relaxed);
  if (!check) return;
  const auto now = std::chrono::steady_clock::now();
  const bool due = next_ != decltype(next_){} && now >= next_;
  if (next_ == decltype(next_){} || due) next_ = now + between_checks;
  if (!due) return;
  try {
    check();
  } catch (...) {
    stopped_.store(true, std::memory_order_relaxed);
    throw;
  }
  next_ = std::chrono::steady_clock::now() + between_checks;
}

double cost_of(const Block& block) {
  double cost = 0;
  for (const auto& op : block.ops) {
    for (const Value* result : op->results) cost += static_cast<double>(element_count(result->type.shape));
    if (op->is("mma"))
      cost += static_cast<double>(element_count(op->type(0).shape)) *
              static_cast<double>(op->type(1).shape.back()) / 8;
    for (const auto& region : op->regions) cost += cost_of(*region) * (op->is("if") ? 1 : 8);
  }
  return cost;
}

int Glance::every(double cost) {
  return static_cast<int>(std::clamp(cost_between_looks / std::max(cost, 1.0), 1.0, double{most_iterations}));
}

}  // namespace tile::cpu
