// Barriers in shared memory, on the host; replaces the file of this name in csrc.
#pragma once
#include "cuda/device/machine.cuh"
#include "cuda/emulator/asynchronous.h"

namespace tile {

TILE void init_barrier(SharedAddress at, int arrivals, int line) {
  emulator::init_barrier((const void*)at, arrivals, line);
}
TILE void publish_barriers() { emulator::publish_barriers(); }
TILE void expect_bytes(SharedAddress at, int bytes, int line) {
  emulator::expect_bytes((const void*)at, bytes, line);
}
TILE void arrive(SharedAddress at, int line) { emulator::arrive((const void*)at, line); }
TILE void arrive_remote(SharedAddress at, int cta, int line) {
  emulator::arrive_remote((const void*)at, cta, line);
}
TILE void wait_for(SharedAddress at, u32 parity, int line, const char* file = __builtin_FILE(),
                   int site = __builtin_LINE()) {
  emulator::wait_for_barrier((const void*)at, parity, {"the barrier", line, file, site});
}

template <int count>
TILE void give_registers(int line) {
  emulator::give_registers(count, line);
}
template <int count>
TILE void take_registers(int line, const char* file = __builtin_FILE(), int at = __builtin_LINE()) {
  emulator::take_registers(count, {"take_registers", line, file, at});
}

// The hardware may elect any thread of the warp; another than lane 0 shows which code relies on that.
TILE bool elected_thread(int) { return thread() == 31; }

TILE void fence_async(int line) { emulator::fence_async(line); }

template <int threads>
TILE void synchronize_groups(int line, const char* file = __builtin_FILE(), int at = __builtin_LINE()) {
  emulator::meet(emulator::Group::computing(threads), {"the barrier of the groups", line, file, at}, nullptr,
                 [](void**, int count) { emulator::pass_barrier(count); });
}

}  // namespace tile
