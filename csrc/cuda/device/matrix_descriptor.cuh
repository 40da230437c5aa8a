// Encodes for wgmma where a matrix lies in shared memory.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

// The address and two distances in units of 16 bytes, and the swizzle: 0 none, 1 of 128 bytes, 2 of 64, 3 of
// 32 (PTX ISA, matrix descriptor). An address further by a multiple of 16 bytes is added to it, divided
// by 16.
TILE constexpr u64 matrix_descriptor(u32 address, int leading, int stride, int mode) {
  return (u64)((address & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 |
         (u64)mode << 62;
}

}  // namespace tile
