// The twin of csrc/cuda/device/dependent.cuh: launches run one behind the other.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

TILE void wait_for_kernels_before(u32) {}

}  // namespace tile
