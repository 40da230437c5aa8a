// Interrupts a launch before all its blocks have run. The launch's threads check a shared flag at short
// intervals.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "ir/op.h"

namespace tile::cpu {

// Sets the function that long launches call several times a second on the launching thread. It throws to end
// the launch, as Python's does after a signal. Call it once.
void set_interruption(void (*check)());

// The exception that ends a thread's blocks after the launch was interrupted. It never leaves the launch.
struct Interrupted {};

class Watch {
 public:
  Watch() : launcher_(std::this_thread::get_id()) {}
  Watch(const Watch&) = delete;

  // Throws Interrupted after an interruption. On the launching thread, throws what the check throws.
  void look() {
    if (stopped_.load(std::memory_order_relaxed)) [[unlikely]]
      throw Interrupted();
    if (std::this_thread::get_id() == launcher_) ask();
  }

  // Counts a thread of the launch as running for as long as the object lives.
  class Running {
   public:
    explicit Running(Watch& watch) : watch_(watch) {
      watch_.running_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Running();
    Running(const Running&) = delete;

   private:
    Watch& watch_;
  };
  // Called on the launching thread while it counts as running. Returns when no other thread runs; throws if
  // an interruption comes first.
  void wait_for_others();
  bool on_launcher() const { return std::this_thread::get_id() == launcher_; }

 private:
  void ask();
  const std::thread::id launcher_;
  std::chrono::steady_clock::time_point next_{};  // when the next check is due; the epoch: none is planned
  std::atomic<bool> stopped_{false};
  std::atomic<int> running_{0};
  std::mutex mutex_;
  std::condition_variable ended_;
};

// Estimates how many elements the ops of a block process. A loop counts as a few iterations.
double cost_of(const Block& block);

// Counts loop iterations or blocks, and checks the watch rarely enough for the cost to be negligible.
class Glance {
 public:
  explicit Glance(int every) : every_(every), left_(every) {}
  static int every(double cost);  // the interval of checks for iterations of this cost

  void operator()(Watch* watch) {
    if (--left_ > 0) [[likely]]
      return;
    left_ = every_;
    watch->look();
  }

 private:
  const int every_;
  int left_;
};

}  // namespace tile::cpu
