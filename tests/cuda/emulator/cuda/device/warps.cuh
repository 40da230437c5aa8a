// Synchronises the threads of a warp on the host; replaces the file of this name in csrc.
#pragma once
#include "cuda/device/machine.cuh"
#include "cuda/emulator/asynchronous.h"

namespace tile {

TILE void synchronize_warp(int line, const char* file = __builtin_FILE(), int at = __builtin_LINE()) {
  emulator::meet(emulator::Group::warp(), {"the barrier of the warp", line, file, at}, nullptr,
                 [](void**, int count) { emulator::pass_warp_barrier(count); });
}

}  // namespace tile
