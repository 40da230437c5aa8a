// The threads of a cluster's blocks; most launches have clusters of one.
#pragma once
#include <cstddef>
#include <string>

#include "machine.h"

namespace tile::emulator {

// Runs body() once for each thread of so many blocks along the first axis, of which `here` names the first.
// Throws a Report if they deadlock.
void run_cluster(int blocks, int threads, void (*body)());
bool block_has_ended(int of_cluster);

size_t running_thread();  // its number in the cluster
size_t threads_of_block();

// An event that a thread waits for and that is no meeting of threads.
class Condition {
 public:
  virtual ~Condition() = default;
  virtual bool holds() const = 0;
  // Called for the thread when it goes on.
  virtual void pass() {}
  // Called when no thread can go on: applies what is in flight, as late as possible; returns whether
  // something was.
  virtual bool deliver() { return false; }
  // Continues "threads 0-31 wait at the barrier of line 7 for ".
  virtual std::string text() const = 0;
};
void wait_until(Condition& condition, const Site& site);

}  // namespace tile::emulator
