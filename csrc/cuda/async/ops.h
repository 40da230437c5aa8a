// The ops of kernels that copy and multiply asynchronously. Only the GPU target has them: passes of this
// folder create them, after all passes of the language. They print, parse and verify like other ops.
//
//   roles {} {} {}: the regions of the producer, one thread, of a second one, which copies what epilogues
//     load, and of each group that multiplies
//
// Ops of the producers' regions:
//   ring_fill {ring}: waits until the ring's stage is free, and announces the bytes to come
//   ring_load array, indices… {ring, steps, tile}: copies a tile of the array to the stage. {shared}: this
//     CTA's half of it to the stages of both CTAs of a pair
//   ring_next {ring}: goes on to the next stage; groups have it too
//
// Ops of the groups' region:
//   ring_wait {ring}: waits until the stage is filled
//   ring_tile {dtype, ring, shape, tile}: the stage's tile; only products read it
//   ring_left {dtype, ring, shape, tile}: the first columns of the stage's tile in registers, which only
//     products read as a part of their left operand
//   ring_read {dtype, ring, shape}: the stage's tile in registers, as groups hold sums
//   ring_free {ring}: frees the stage of the iteration before
//   ring_drain {ring}: frees the last stage
//   ring_row {dtype, ring, shape}: the stage's row in registers
//   ring_release {ring}: frees this stage; that of a ring_read or ring_row once each warp has read it
//   put_shared v {operand}: writes a tile that the groups have computed, each its rows or columns, to shared
//     memory, and waits until all of them have; only products read the result
//   undefined {dtype, shape}: an accumulator that the first product writes without reading
//   mma_issue x, y, acc, add, held…: starts a product, without acc if not add; its result may only be
//     carried, issued to or awaited. x is in a ring, in registers or the result of put_shared. held: the
//     first columns of an x in a ring, from ring_left. {early}: elementwise ops in front of it are not moved
//     behind it; mma_await may have that too
//   mma_retire {pending}: waits until at most so many products still read their operands
//   mma_await v {pending}: waits for the product; the result may be used like any tile
//   zero_unless condition, v: v, or zeros if no product was issued
//   store_async array, v, indices… {steps, tile}: stores a tile through panels of shared memory, which the
//     copy unit reads while the group goes on
//   store_rows array, v, indices… {steps, tile}: stores a tile through panels; each warp writes its own rows
//   store_wait: waits until the copy unit has read all panels
//
// Where a tile is of an array of which an axis is sliced, {sliced} is that axis, and the slice's start and
// stop follow the indices.
//
// In front of roles:
//   leave_unless condition: ends the kernel
//
// Ops of kernels whose blocks come from a queue (cuda/async/block_queue.h):
//   block_loop first, count {(block) …}: runs its region for the first block, and then for the one that the
//     region yields, as long as that is below count
//   queue_draw begun → i32: takes the next block that no CTA has begun, behind the first `begun` ones
//   queue_put block: tells the other roles the next block, once they have read the last but one
//   queue_take {by_thread} → i32: waits for the next block; a group's warps read it, or the one thread of the
//     second producer
//   queue_close: says that this CTA draws no more; the last one that does leaves the queue as it was
//
// In a persistent kernel whose CTAs are pairs:
//   stores_if condition: what is behind it in its block stores only if the condition holds, because the other
//     CTA's block is the last one of the grid
#pragma once
#include "ir/build.h"
#include "ir/primitive.h"

namespace tile::cuda {

extern const Register roles, ring_fill, ring_load, ring_wait, ring_tile, ring_left, ring_read, ring_row,
    ring_free, ring_drain, ring_release, ring_next, put_shared, undefined, mma_issue, mma_retire, mma_await,
    zero_unless, store_async, store_rows, store_wait, leave_unless, block_loop, queue_draw, queue_put,
    queue_take, queue_close, stores_if;

// Returns true for the stores through panels, which have their own barriers.
bool is_panel_store(const Op& op);

// Waits for this stage of a ring, reads it to registers by ring_read or ring_row, frees it and goes on to the
// next.
Value* read_stage(Builder& build, const Register& read, int64_t ring, const Type& type);
inline Attributes ring_attribute(int64_t ring) { return {{"ring", ring}}; }

}  // namespace tile::cuda
