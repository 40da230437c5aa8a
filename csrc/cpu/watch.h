// Whether a launch is to end before its blocks have: its threads look every some microseconds.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "ir/op.h"

namespace tile::cpu {

// Throws where the calling thread is to stop, as Python does for the signals that it has got. Launches that
// take long call it some times a second, on the thread that launched. Set once.
void set_interruption(void (*check)());

// Ends a thread's blocks after the launch was interrupted. Nobody outside of the launch sees it.
struct Interrupted {};

class Watch {
 public:
  Watch() : launcher_(std::this_thread::get_id()) {}
  Watch(const Watch&) = delete;

  // Throws Interrupted; on the launching thread what the interruption throws.
  void look() {
    if (stopped_.load(std::memory_order_relaxed)) [[unlikely]]
      throw Interrupted();
    if (std::this_thread::get_id() == launcher_) ask();
  }

  // While it lives, a thread of the launch may have blocks to run.
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
  // On the launching thread, itself running: returns when no other is. An interruption ends the wait.
  void wait_for_others();
  bool on_launcher() const { return std::this_thread::get_id() == launcher_; }

 private:
  void ask();
  const std::thread::id launcher_;
  std::chrono::steady_clock::time_point next_{};  // of the interruption's checks; the epoch: none is planned
  std::atomic<bool> stopped_{false};
  std::atomic<int> running_{0};
  std::mutex mutex_;
  std::condition_variable ended_;
};

// Elements that the ops of a block touch; a loop counts as a few turns.
double cost_of(const Block& block);

// Counts turns of a loop, or blocks, and looks after so many that looking costs nothing beside them.
class Glance {
 public:
  explicit Glance(int every) : every_(every), left_(every) {}
  static int every(double cost);  // of one turn

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
