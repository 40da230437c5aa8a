// Fibers: functions that can pause in the middle, each with its own stack. They are independent of GPUs.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <vector>

namespace tile::emulator {

class Fibers {
 public:
  explicit Fibers(void (*body)(int)) : body_(body) {}
  ~Fibers();
  Fibers(const Fibers&) = delete;
  // Creates so many fibers, each at the start of body(i). Fibers that have not ended are abandoned.
  void start(int count);
  // Runs the fiber until it pauses or ends; returns false if it has ended.
  bool run(int fiber);
  // Called inside a fiber: returns control to run().
  void pause();

 private:
  struct Fiber {
    ucontext_t context;
    jmp_buf place;
    enum { fresh, idle, running } state = fresh;  // idle: body(i) has ended and may run again
    bool ended = false;
  };
  static void trampoline();
  void grow(int count);

  void (*body_)(int);
  std::vector<Fiber*> fibers_;
  std::vector<char*> stacks_;
  jmp_buf scheduler_;
  int current_ = 0;
};

}  // namespace tile::emulator
