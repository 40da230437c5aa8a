// Launches that change elements atomically. While there is only one in the process, and it runs on one
// thread, nobody can see whether its changes are atomic, and plain ones take half the time.
#pragma once

namespace tile::cpu {

class AtomicLaunch {
 public:
  explicit AtomicLaunch(bool one_thread);
  ~AtomicLaunch();
  AtomicLaunch(const AtomicLaunch&) = delete;
  AtomicLaunch& operator=(const AtomicLaunch&) = delete;
  // Returns true if changes may be plain until leave(), which must follow soon: a launch that begins waits.
  bool enter() const;
  void leave() const;

 private:
  bool one_thread_;
};

}  // namespace tile::cpu
