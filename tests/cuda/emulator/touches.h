// Records accesses of a byte of memory and finds races: accesses of two threads without a barrier in between.
#pragma once
#include "report.h"

namespace tile::emulator {

// Returns true if the running block has acquired what the other block did before this epoch.
bool acquired(int block, unsigned epoch);

struct Touch {
  int block = -1, thread = 0;
  unsigned epoch = 0;
  int cluster = -1;
  unsigned arrived = 0;  // at barriers of the cluster, before the access
  int line = 0;
  Access access = Access::load;

  bool happened() const { return block >= 0; }
  // Returns true if nothing orders this access before the running thread's current one.
  bool unordered() const {
    if (!happened() || (cluster == here.cluster && arrived < here.waited)) return false;
    if (cluster == here.cluster && here.grouped) return false;  // clocks decide
    if (block != here.block_number) return !acquired(block, epoch);
    return epoch == here.epoch && thread != here.thread;
  }
  // "; thread 3 wrote it at line 7, and no barrier is in between".
  std::string text() const {
    const bool other_block = block != here.block_number;
    return str("; thread ", thread, other_block ? " of another block" : "",
               only_reads(access) ? " read" : " wrote", " it", line ? str(" at line ", line) : std::string(),
               !other_block              ? ", and no barrier is in between"
               : cluster == here.cluster ? ", and no barrier of the cluster is in between"
                                         : ", and nothing orders blocks");
  }
};

// The last access of a kind, and an earlier one of another block or thread.
class Touches {
 public:
  // Atomic accesses do not race with one another.
  const Touch* conflict(Access access) const {
    for (const Touch* touch : {&last_, &other_})
      if (touch->unordered() && !(is_atomic(access) && is_atomic(touch->access))) return touch;
    return nullptr;
  }
  void add(Access access, int line) {
    const Touch touch{here.block_number, here.thread, here.epoch, here.cluster, here.arrived, line, access};
    const bool new_thread = last_.thread != touch.thread;
    // An access of another block stays relevant, one of this block until the next barrier.
    if (last_.block != touch.block || (new_thread && (!other_.happened() || other_.block == touch.block)))
      other_ = last_;
    last_ = touch;
  }
  const Touch& last() const { return last_; }

 private:
  Touch last_, other_;
};

struct TouchedByte {
  Touches reads, writes;

  // Returns the recorded access that a new access races with, or null.
  const Touch* race(Access access) const {
    if (const Touch* touch = writes.conflict(access)) return touch;
    return only_reads(access) ? nullptr : reads.conflict(access);
  }
  void note(Access access, int line) { (only_reads(access) ? reads : writes).add(access, line); }
};

}  // namespace tile::emulator
