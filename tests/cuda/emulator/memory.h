// The memory of a launch: which bytes may be accessed, and which threads accessed them.
#pragma once
#include <cstdint>
#include <vector>

#include "touches.h"

namespace tile::emulator {

// Called when the blocks of a cluster start: no byte is written yet.
void start_shared_memory(int blocks, int bytes);
// A copy that the running thread does not wait for writes these bytes; at its end they are written.
void begin_copy(const void* at, int bytes, int line);
void end_copy(const void* at, int bytes, int line);
void forget_copies();

// An array in memory; strides in elements.
struct EmulatedArray {
  char* data;
  int64_t element_bytes, rank, sizes[8], strides[8];
  int64_t parameter;
};
// Forgets all releases at the start of a launch.
void forget_releases();
// Sets the memory that a launch may access: only the elements of these arrays.
void start_global_memory(std::vector<EmulatedArray> arrays);

}  // namespace tile::emulator
