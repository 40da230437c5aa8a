// What cuda/device/machine.cuh calls: who runs, checks of memory accesses, threads that meet. It includes
// nothing, because every batch of programs is compiled with it.
#pragma once

namespace tile::emulator {

// The thread that runs.
struct Place {
  int thread = 0;
  int block[3] = {}, grid[3] = {};
  int block_number = -1;
  unsigned epoch = 0;  // goes on at every barrier of the block and with every block
  // Of a cluster: its number, the block's number in it, and how often this thread has arrived and waited.
  int cluster = -1, of_cluster = 0;
  unsigned arrived = 0, waited = 0;
};
extern Place here;

// Each notes who touches which byte. What is wrong ends the launch with a report.
enum class Access { load, store, atomic_load, change };  // change: an atomic one
constexpr bool only_reads(Access access) { return access == Access::load || access == Access::atomic_load; }
constexpr bool is_atomic(Access access) { return access == Access::atomic_load || access == Access::change; }
void check_shared(const void* at, int bytes, Access access, int line);
// `constant`: the kernel was told that nobody writes there while it runs.
void check_global(const void* at, int bytes, Access access, bool constant, int line, int alignment = 0);
// A word of which some bytes are an element: it is exchanged as a whole.
void check_global_word(const void* at, Access access, int line);
// A releasing atomic access of `at`, and behind it an acquiring one.
void release_at(const void* at);
void acquire_at(const void* at);
char* shared_memory();  // of the running thread's block
// The place of `at` in the shared memory of another block of the cluster, which a store goes to.
void* check_shared_of(int block, void* at, int bytes, int line);
// Until such a copy is waited for, its bytes of shared memory are nobody's.
void copy_async(void* to, const void* from, int bytes, int line);
void commit_copies();
void wait_for_copies(int groups);

// Where threads wait: the user's line and the place in the device library.
struct Site {
  const char* what;
  int line;
  const char* file;
  int at;
};
// Neighbours: a warp, a warpgroup, the block.
struct Group {
  int first, count;
  static Group warp();
  static Group block();
};
// Returns when every thread of the group stands at the same site, and `act` has seen what each has brought.
// Barriers, shuffles, votes and matrix instructions of warps and warpgroups are all of this kind.
void meet(Group group, const Site& site, void* brought, void (*act)(void** all, int count));

// The barrier of all threads of a cluster, in two halves.
void arrive_in_cluster();
void wait_in_cluster(const Site& site);

// ldmatrix of four matrices, and mma.sync of a block of 16 x 8.
void load_matrices(unsigned (&to)[4], const void* row, bool transposed, const Site& site);
// A lane's fragments, of 8 words a row or column, and how they are read.
struct BlockProduct {
  const void* words[6];  // 4 of the left operand, 2 of the right one
  int elements;          // of a word
  double (*left)(const void* word, int i);
  double (*right)(const void* word, int i);
  void* sums[4];
  double (*sum)(const void* at);
  void (*set)(void* at, double sum);
};
void multiply_block(BlockProduct product, const Site& site);

}  // namespace tile::emulator
