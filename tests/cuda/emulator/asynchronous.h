// The interface for the device headers of kernels whose warpgroups run different code. It includes nothing
// else, because every batch of programs is compiled with it. Addresses are those of the running block's
// shared memory.
#pragma once
#include "machine.h"

namespace tile::emulator {

// Called by this_group(): from here on a warpgroup is what a block is elsewhere.
void begin_groups();
// Called when adjacent threads have met, by the first.
void pass_barrier(int count);
// The same of the threads of a warp, of which only kernels of warpgroups keep the order.
void pass_warp_barrier(int count);

void init_barrier(const void* at, int arrivals, int line);
void publish_barriers();
void expect_bytes(const void* at, int bytes, int line);
void arrive(const void* at, int line);
void arrive_remote(const void* at, int cta, int line);
void wait_for_barrier(const void* at, unsigned parity, const Site& site);
void give_registers(int count, int line);
void take_registers(int count, const Site& site);
void fence_async(int line);

// Draws a block, and returns how many blocks were drawn before. The last CTA draws until none is left. Each
// other CTA draws few, and is then told that all blocks have been drawn.
unsigned draw_block(unsigned counter, int line);
void close_queue(unsigned counter, int line);

// A tensor map is 128 bytes as tests/cuda/emulate.py encodes it.
void copy_tensor(void* to, const void* map, const void* barrier, const int* at, int rank, unsigned blocks,
                 int line);
void store_tensor(const void* map, const void* from, const int* at, int rank, int line);
void commit_tensor_stores();
void wait_for_tensor_reads(int groups);
void wait_for_tensor_stores(int groups);

// A thread's part in a product of its group.
struct Product {
  int columns, rows, steps;
  int element_bytes;  // of the operands
  bool integers, left_k_major, right_k_major;
  double (*left)(const void* element);
  double (*right)(const void* element);
  // Descriptors of the first step of both operands; offsets in bytes of a step, and of a block of rows.
  unsigned long long left_at, right_at;
  int (*left_step)(int k);
  int (*left_block)(int i);
  int (*right_step)(int k);
  const unsigned* left_words;  // the first `held` steps of the left operand, in registers
  int held;
  unsigned* sums;
  bool add;
};
void begin_product(Product product, const Site& site);
void retire_products(int pending);
void take_sums(unsigned* sums, int count, int pending, bool integers, int line);
// Reports the use of a sum that is not awaited, which is a NaN or an integer from 0x5a800000 on.
void check_sum(unsigned bits, int line);

void store_matrices(const void* row, const unsigned (&words)[4], bool transposed, const Site& site);

}  // namespace tile::emulator
