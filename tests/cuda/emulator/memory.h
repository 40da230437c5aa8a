// Memory of a launch: what may be touched, and who touched it.
#pragma once
#include <cstdint>
#include <vector>

#include "touches.h"

namespace tile::emulator {

// The blocks of a cluster begin: nothing is written yet.
void start_shared_memory(int blocks, int bytes);
// A copy that the running thread does not wait for writes there; at its end the bytes are written.
void begin_copy(const void* at, int bytes, int line);
void end_copy(const void* at, int bytes, int line);
void forget_copies();

// An array as it lies in memory; strides in elements.
struct EmulatedArray {
  char* data;
  int64_t element_bytes, rank, sizes[8], strides[8];
  int64_t parameter;
};
// No block has released anything.
void forget_releases();
// What a launch may touch: the elements of these, and nothing between them.
void start_global_memory(std::vector<EmulatedArray> arrays);

}  // namespace tile::emulator
