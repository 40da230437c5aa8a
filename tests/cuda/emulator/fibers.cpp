// Creates fibers with ucontext and switches them with setjmp and longjmp, which make no system calls.
#include "fibers.h"

#include <sys/mman.h>

#include <new>

namespace tile::emulator {
namespace {

// Pages of a stack that are never accessed cost nothing.
constexpr size_t stack_bytes = size_t{1} << 20;
Fibers* starting = nullptr;

}  // namespace

Fibers::~Fibers() {
  for (char* stack : stacks_) munmap(stack, stack_bytes);
  for (Fiber* fiber : fibers_) delete fiber;
}

void Fibers::grow(int count) {
  while (static_cast<int>(fibers_.size()) < count) {
    void* stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) throw std::bad_alloc();
    stacks_.push_back(static_cast<char*>(stack));
    fibers_.push_back(new Fiber);
  }
}

void Fibers::start(int count) {
  grow(count);
  for (int i = 0; i < count; ++i) {
    Fiber& fiber = *fibers_[static_cast<size_t>(i)];
    if (fiber.state == Fiber::running) fiber.state = Fiber::fresh;
    fiber.ended = false;
    if (fiber.state == Fiber::idle) continue;
    getcontext(&fiber.context);
    fiber.context.uc_stack = {
        .ss_sp = stacks_[static_cast<size_t>(i)], .ss_flags = 0, .ss_size = stack_bytes};
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, trampoline, 0);
  }
}

void Fibers::trampoline() {
  Fibers& fibers = *starting;
  for (;;) {
    Fiber& fiber = *fibers.fibers_[static_cast<size_t>(fibers.current_)];
    fiber.state = Fiber::running;
    fibers.body_(fibers.current_);
    fiber.ended = true;
    fiber.state = Fiber::idle;
    fibers.pause();
  }
}

bool Fibers::run(int index) {
  Fiber& fiber = *fibers_[static_cast<size_t>(index)];
  if (fiber.ended) return false;
  current_ = index;
  if (_setjmp(scheduler_) == 0) {
    if (fiber.state != Fiber::fresh) _longjmp(fiber.place, 1);
    starting = this;
    setcontext(&fiber.context);
  }
  return !fiber.ended;
}

void Fibers::pause() {
  if (_setjmp(fibers_[static_cast<size_t>(current_)]->place) == 0) _longjmp(scheduler_, 1);
}

}  // namespace tile::emulator
