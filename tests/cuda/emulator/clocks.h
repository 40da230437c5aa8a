// Vector clocks, for launches whose warpgroups run different code: which accesses a thread knows to have
// happened. Agents have a time of their own: the threads of a cluster, and the copies and products that run
// concurrently.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "machine.h"

namespace tile::emulator {

using Agent = int;  // threads have the first numbers

struct Moment {
  Agent agent = -1;
  unsigned time = 0;
};

// The time up to which each agent's accesses are known to have happened.
class Clock {
 public:
  unsigned at(Agent agent) const {
    return static_cast<size_t>(agent) < times_.size() ? times_[static_cast<size_t>(agent)] : 0;
  }
  bool knows(const Moment& moment) const { return moment.time <= at(moment.agent); }
  void learn(const Moment& moment);
  // Learns what the other knows.
  void join(const Clock& other);
  // Forgets what the other does not know.
  void meet(const Clock& other);

 private:
  std::vector<unsigned> times_;
};

enum class Actor { thread, copy, product, tensor_store };

// An access of a byte.
struct Record {
  Moment when;
  int cluster = -1, block = 0, thread = 0, line = 0;  // of the thread that began it
  Actor actor = Actor::thread;
  Access access = Access::load;

  bool happened() const { return cluster >= 0 && cluster == here.cluster; }
  // "; thread 3 wrote it at line 7, and no barrier is in between".
  std::string text() const;
};
// A record of the running thread, or of what it begins: the moment is when that is done.
Record record_now(Access access, int line);
Record record_of(Actor actor, const Moment& when, Access access, int line);

// The accesses of a byte that a later one may race with: the last write, and the reads since then that do not
// know one another.
class Order {
 public:
  // Returns the access that one with this knowledge would race with, or null.
  const Record* race(const Clock& known, Access access) const;
  void note(const Clock& known, const Record& record);
  const Record& write() const { return write_; }

 private:
  Record write_;
  std::vector<Record> reads_;
};

// Called when a cluster of so many threads starts, and for the running thread.
void start_clocks(size_t threads);
Agent new_agent();
Clock& clock_of(size_t thread);
Clock& own_clock();
// Ends the running thread's current moment: what it does next is not known to those who learned its clock.
void tick(size_t thread);
// Joins the clocks of adjacent threads that have met.
void join_clocks(size_t first, size_t count);
// Returns true if the thread that wrote has called fence_async() afterwards, and this clock knows it.
bool fenced(const Record& write, const Clock& known);

}  // namespace tile::emulator
