// Occupancy of a multiprocessor, and estimates of time.
#include "runtime/configuration_cost.h"

#include <algorithm>

namespace tile {
namespace {

// The limits of a multiprocessor, from the CUDA documentation's table of compute capabilities.
constexpr int registers_of_all = 65536, most_registers = 255;
int most_warps(int arch) { return arch == 80 || arch / 10 == 9 || arch / 10 == 10 ? 64 : 48; }
int most_blocks(int arch) {
  if (arch == 80 || arch / 10 == 9 || arch / 10 == 10) return 32;
  return arch == 86 || arch == 87 ? 16 : 24;
}
constexpr int reserved_shared_bytes = 1024;  // of each block

// The registers of a thread that hold no elements of tiles: addresses, extents, temporaries.
constexpr int other_registers = 24;
// A spilled register is written once and read once.
constexpr int bytes_of_spill = 8;
// With this number of warps a multiprocessor waits for memory half of the time.
constexpr double half_warps = 8;
// Factors of the time, which are judgements and not fitted to measurements: with one block on a
// multiprocessor all of its warps wait at each barrier; without a prefetch each iteration waits for its
// loads; rematerialization computes values again.
constexpr double of_one_block = 1.25, without_prefetch = 1.25, of_rematerialization = 1.1;
// Spills of this number of bytes a thread double the time.
constexpr double spilled_bytes_of_twice = 1024;

}  // namespace

int resident_warps(const cuda::Program& program, const KernelResources& resources,
                   const cuda::Target& target) {
  if (resources.registers == 0) return 0;
  constexpr int unit = 8;  // registers are given to the threads of a warp in such steps
  const int registers = (resources.registers + unit - 1) / unit * unit, warps = program.threads / 32,
            shared = program.shared_bytes + resources.shared_bytes + reserved_shared_bytes;
  const int blocks = std::min({registers_of_all / (registers * program.threads),
                               most_warps(target.arch) / std::max(1, warps), most_blocks(target.arch),
                               (target.shared_bytes + reserved_shared_bytes) / shared});
  return std::max(1, blocks) * warps;
}

double estimated_cost(const cuda::Program& program, const cuda::Configuration& configuration,
                      const KernelResources& resources, const cuda::Target& target) {
  const int warps = resident_warps(program, resources, target);
  if (!program.path.empty() || warps == 0) return 1;
  double cost = 1 + half_warps / warps;
  if (warps == program.threads / 32) cost *= of_one_block;
  if (!configuration.prefetch) cost *= without_prefetch;
  if (configuration.rematerialize) cost *= of_rematerialization;
  return cost * (1 + (resources.spill_stores + resources.spill_loads) / spilled_bytes_of_twice);
}

KernelResources expected_resources(const cuda::Program& program, const cuda::Configuration& configuration,
                                   const cuda::Program& other, const KernelResources& of_other) {
  if (of_other.registers == 0) return {};
  const int spilled = of_other.spill_stores + of_other.spill_loads;
  const int64_t of_tiles = std::max(0, of_other.registers + spilled / bytes_of_spill - other_registers);
  const int64_t threads = int64_t{program.threads} * program.cluster;
  int64_t wanted = other_registers + of_tiles * other.threads * other.cluster / threads;
  if (configuration.rematerialize) wanted = std::min<int64_t>(wanted, other_registers + of_tiles);
  const int64_t most = std::min(most_registers, registers_of_all / (program.threads * program.held));
  KernelResources expected;
  expected.registers = static_cast<int>(std::min(wanted, most));
  expected.spill_stores = static_cast<int>(std::max<int64_t>(0, wanted - most) * bytes_of_spill);
  return expected;
}

}  // namespace tile
