// The interface for cuda/device/machine.cuh: the running thread, checks of memory accesses, and
// synchronization. It includes nothing, because every batch of programs is compiled with it.
#pragma once

namespace tile::emulator {

// The running thread.
struct Place {
  int thread = 0;
  int block[3] = {}, grid[3] = {};
  int block_number = -1;
  unsigned epoch = 0;  // changes at every barrier of the block and with every block
  // The cluster's number, the block's number in it, and how often this thread has arrived and waited.
  int cluster = -1, of_cluster = 0;
  unsigned arrived = 0, waited = 0;
  bool grouped = false;  // warpgroups run different code
};
extern Place here;

// Each check records which thread accesses which byte. An error ends the launch with a report.
enum class Access { load, store, atomic_load, change };  // change: atomic read-modify-write or store
constexpr bool only_reads(Access access) { return access == Access::load || access == Access::atomic_load; }
constexpr bool is_atomic(Access access) { return access == Access::atomic_load || access == Access::change; }
void check_shared(const void* at, int bytes, Access access, int line);
// `constant`: the kernel was told that nothing writes there while it runs.
void check_global(const void* at, int bytes, Access access, bool constant, int line, int alignment = 0);
// Checks an exchange of a whole word of which some bytes are an element.
void check_global_word(const void* at, Access access, int line);
// Called before a releasing atomic access of `at`, and after an acquiring one.
void release_at(const void* at);
void acquire_at(const void* at);
char* shared_memory();  // of the running thread's block
// Returns the address that `at` has in the shared memory of another block of the cluster, for a store.
void* check_shared_of(int block, void* at, int bytes, int line);
// Until a thread waits for the copy, no thread may access its bytes of shared memory.
void copy_async(void* to, const void* from, int bytes, int line, int width = 16);
void commit_copies();
void wait_for_copies(int groups);

// A site where threads wait: the user's line and the position in the device library.
struct Site {
  const char* what;
  int line;
  const char* file;
  int at;
};
// Adjacent threads: a warp, a warpgroup, the block.
struct Group {
  int first, count;
  bool anywhere = false;  // they may wait at different sites
  static Group warp();
  static Group block();
  // The threads that synchronize() joins: the warpgroup if these run different code, else the block.
  static Group synchronized();
  // So many threads behind the first warpgroup.
  static Group computing(int count);
};
// Returns when every thread of the group waits at the same site and `act` has processed what each has
// brought. Barriers, shuffles, votes and matrix instructions of warps and warpgroups are implemented by this.
void meet(Group group, const Site& site, void* brought, void (*act)(void** all, int count));

// The barrier of all threads of a cluster, in two halves.
void arrive_in_cluster();
void wait_in_cluster(const Site& site);

// ldmatrix of four matrices, and mma.sync of a block of 16 x 8.
void load_matrices(unsigned (&to)[4], const void* row, bool transposed, const Site& site);
// A lane's fragments, 8 words per row or column, and how to read them.
struct BlockProduct {
  const void* words[6];  // 4 of the left operand, 2 of the right one
  int elements;          // per word
  double (*left)(const void* word, int i);
  double (*right)(const void* word, int i);
  void* sums[4];
  double (*sum)(const void* at);
  void (*set)(void* at, double sum);
};
void multiply_block(BlockProduct product, const Site& site);

}  // namespace tile::emulator
