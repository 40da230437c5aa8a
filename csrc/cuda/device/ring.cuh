// The position in a ring: a number of stages in shared memory, which are filled and read one after another.
#pragma once
#include "cuda/device/machine.cuh"

namespace tile {

// The phase changes each time that the ring starts again. It is the parity with which a reader of the stage
// waits for its copies; a writer waits with the other parity, so that it does not wait in the first round.
struct Ring {
  u32 stage = 0, phase = 0;
  template <int stages>
  TILE void next() {
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

}  // namespace tile
