// The ops of kernels that copy and multiply asynchronously. Only the GPU target has them: passes of this
// folder create them, after all passes of the language. They print, parse and verify like other ops.
//
//   roles {} {}                 the regions of the producer, one thread, and of each group that multiplies
//   ring_fill {ring}            producer: waits until the ring's stage is free and announces the bytes to
//   come ring_load array, indices…   producer: copies a tile of the array to the stage {ring, tile, steps}
//   ring_wait {ring}            group: waits until the stage is filled
//   ring_tile {ring, tile}      group: the stage's tile; only products read it
//   ring_free {ring}            group: frees the stage of the iteration before
//   ring_drain {ring}           group: frees the last stage
//   ring_next {ring}            both: goes on to the next stage
//   undefined {dtype, shape}    group: an accumulator that the first product writes without reading
//   mma_issue x, y, acc, add    group: starts a product, without acc if not add; its result may only be
//   carried,
//                               issued to or awaited
//   mma_retire {pending}        group: waits until at most so many products still read their operands
//   mma_await v {pending}       group: waits for the product; the result may be used like any tile
//   zero_unless condition, v    group: v, or zeros if no product was issued
#pragma once
#include "ir/primitive.h"

namespace tile::cuda {

extern const Register roles, ring_fill, ring_load, ring_wait, ring_tile, ring_free, ring_drain, ring_next,
    undefined, mma_issue, mma_retire, mma_await, zero_unless;

}  // namespace tile::cuda
