// Replaces csrc/cuda/device/dependent.cuh: launches run one after another.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

TILE void wait_for_kernels_before(u32) {}

}  // namespace tile
