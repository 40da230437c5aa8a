// Fibers: functions that pause in the middle, each on a stack of its own. They know nothing of GPUs.
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
  // So many, each before the first line of body(i). Those that had not ended are left where they stood.
  void start(int count);
  // Until the fiber pauses or ends; false: it has ended.
  bool run(int fiber);
  // From inside a fiber: gives control back to run().
  void pause();

 private:
  struct Fiber {
    ucontext_t context;
    jmp_buf place;
    enum { fresh, idle, running } state = fresh;  // idle: body(i) has ended and may begin again
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
