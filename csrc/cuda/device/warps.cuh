// Synchronises the threads of a warp. The emulator replaces this file.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

// All threads of the warp wait here, and then each has accessed memory as it did before.
TILE void synchronize_warp(int) { __syncwarp(); }

}  // namespace tile
