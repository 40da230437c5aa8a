// Runs a launch, cluster by cluster. This is the only function that the harness calls.
#include "block.h"
#include "block_counters.h"
#include "memory.h"

namespace tile::emulator {
namespace {

struct Launch {
  const char* name;
  void (*kernel)(void**);
  void** arguments;
  int32_t threads, shared_bytes, cluster, grid[3], array_count;
  const EmulatedArray* arrays;
};
const Launch* launch = nullptr;

void run(const Launch& given) {
  launch = &given;
  here = {};
  for (int i = 0; i < 3; ++i) here.grid[i] = given.grid[i];
  start_global_memory({given.arrays, given.arrays + given.array_count});
  start_block_counter();
  for (int z = 0; z < given.grid[2]; ++z)
    for (int y = 0; y < given.grid[1]; ++y)
      for (int x = 0; x < given.grid[0]; x += given.cluster) {
        here.block[0] = x, here.block[1] = y, here.block[2] = z;
        start_shared_memory(given.cluster, given.shared_bytes);
        forget_copies();
        run_cluster(given.cluster, given.threads, [] { launch->kernel(launch->arguments); });
      }
  check_block_counter();
}

}  // namespace

// Returns null, or the report of the failure, which is valid until the next launch.
extern "C" const char* tile_emulate(const Launch* launch) {
  static std::string text;
  try {
    run(*launch);
    return nullptr;
  } catch (const std::exception& error) {
    text = str("kernel ", launch->name, ", ", error.what());
    return text.c_str();
  }
}

}  // namespace tile::emulator
