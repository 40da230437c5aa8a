// Tracks copies, products and tensor stores, which access memory concurrently with the threads of a cluster
// whose warpgroups run different code.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "clocks.h"

namespace tile::emulator {

// Called when the groups of a cluster begin, and when all threads have ended: reports what is still in
// flight.
void start_effects();
void finish_effects();
void start_shared_order();
void start_barriers();
void finish_barriers();
void start_registers();
void start_tensor_stores();
void finish_tensor_stores();
void start_products();

// The offset of an address in the running block's shared memory, and an address in that of another.
int64_t shared_offset(const void* at);
char* shared_memory_of(int block);
// Notes an access of shared memory that the running thread begins. `known` is what is ordered before it.
// Reports races, bytes that nobody wrote, and writes of threads that no fence_async() follows. `deed`
// continues "line 7: thread 3 of block (0, 0, 0) ".
void check_effect(int block, int64_t offset, int64_t bytes, const Clock& known, const Record& record,
                  const char* deed);

// Checks elements of an array that a copy reads until the moment of the record.
void check_global_read(const void* from, int bytes, int alignment, const Record& ends);

// A copy that arrives at a barrier, at the offset in a block's memory.
struct Arrival {
  int64_t bytes;
  Record record;
  std::function<void()> apply;
};
// Returns the moment when copies that the barrier of this block counts now will be known.
Moment moment_of_barrier(int block, int64_t offset, int line);
void add_arrival(int block, int64_t offset, Arrival arrival);
// Reports bytes that overlap a barrier.
void check_no_barrier(int block, int64_t offset, int64_t bytes, int line);

}  // namespace tile::emulator
