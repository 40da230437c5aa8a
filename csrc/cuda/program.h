// A kernel for the GPU: CUDA C++ text for one chip, and what a launch of it needs.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cuda/conversion.h"
#include "ir/assertion.h"
#include "ir/op.h"

namespace tile::cuda {

// The properties of a chip that the generated source depends on.
struct Target {
  int arch = 90;                 // 90: compute capability 9.0
  int shared_bytes = 48 * 1024;  // what a block may have
  int max_threads = 1024;        // a block
  int cluster_blocks = 16;       // of a cluster at most, where the chip has them
  // Maximum tile bytes per CTA: half the registers of 512 threads. What takes more is distributed
  // over a cluster, whose blocks hold less, so that blocks of other clusters fit on the same multiprocessor.
  int block_bytes = 64 * 1024;
  int cluster_share() const { return std::min(block_bytes, 32 * 1024); }
  // The grid's axis that a launch swaps with the first, the only one that may be long.
  int long_axis = 0;
  bool operator==(const Target&) const = default;
};
constexpr int oldest_arch = 80;  // that kernels run on
// Returns true if a launch's blocks may be there while the kernel before it in the stream ends, where they
// wait for it.
constexpr bool may_start_early(const Target& target) { return target.arch >= 90; }
constexpr int portable_cluster_blocks = 8;      // what every chip that has clusters runs
int most_cluster_blocks(const Target& target);  // 1: the chip has none
// Bytes of tiles that a kernel may keep at once: in the registers of a block, or of the largest cluster.
int64_t most_tile_bytes(const Target& target);

struct Cluster;  // cuda/cluster.h

// How a kernel is cut apart from its tiles.
struct Configuration {
  int warps = 0;               // as a power of two, times the usual: 1 is twice as many, -1 half
  bool prefetch = true;        // of a loop's next iteration
  bool single_cta = false;     // ptxas else saves registers, so that two blocks fit
  bool rematerialize = false;  // compute values again instead of keeping them in registers, as in clusters
  int blocks = 0;              // of a cluster, as a power of two, times the usual
  int occupancy = 0;           // blocks that a processor is to hold at once; 0: as the plan has it
};
// The first is the usual one, the others are for kernels whose registers it spills.
inline constexpr Configuration configurations[] = {
    {},
    {.rematerialize = true},
    {.single_cta = true},
    {.single_cta = true, .rematerialize = true},
    {.prefetch = false, .single_cta = true},
    {.warps = 1, .single_cta = true},
    {.warps = -1, .single_cta = true},
    {.blocks = 1},
};
std::string text_of(const Configuration& configuration);  // "usual", "rematerialize, single CTA"

// Its parameters are the function's, in their order. A scalar is passed as its bytes; an array of rank n
// (taken as 1 where 0) as {void* data; int64_t strides[n]; int32_t sizes[n];}, strides in elements; the
// sizes of a wide array are int64_t. An error names the user's line: a tile too large for the chip, a
// primitive without a body here.
struct Program {
  // After the passes.
  Program(const Function& function, const Target& target, const Configuration& configuration = {});

  std::string text;
  std::string entry;        // the kernel's symbol
  int threads = 0;          // a block
  int cluster = 1;          // blocks that share a tile: one of the user's grid, along the first axis
  bool multiplies = false;  // on tensor cores
  int shared_bytes = 0;
  std::vector<Conversion> conversions;  // of tiles between layouts, in the order of the text
  // By their numbers in the text. A kernel that has some takes one parameter more, the device library's
  // FailureLocation, and writes there {number + 1, first false element, x, y | z << 16 of the launched
  // block}. Last, where it may start early, a u32: whether this launch does.
  std::vector<Assertion> assertions;

 private:
  // False: the tiles cannot be distributed over so many blocks.
  bool make(const Function& function, const Target& target, const Configuration& configuration,
            const Cluster& cluster);
};

// The device library: name and text of the files that #include lines of Program::text find.
const std::vector<std::pair<std::string, std::string>>& device_library();

// Facts of a launch key about array parameter P, as attributes of the function:
//   array.P.unit     the axis whose stride is 1; without it none is known
//   array.P.aligned  1: the base, and in bytes every other stride, are multiples of 16
//   array.P.whole    1: so is the extent of the unit axis, in bytes
//   array.P.small    1: strides in bytes fit 32 bits, extents are below 2^29
//   array.P.wide     1: an extent does not fit i32
}  // namespace tile::cuda
