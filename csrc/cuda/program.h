// A kernel for the GPU: CUDA C++ source for one chip, and the launch parameters that it needs.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cuda/conversion.h"
#include "cuda/parameters.h"
#include "ir/assertion.h"
#include "ir/op.h"

namespace tile::cuda {

bool wgmma_is_on();
// Kernels on warpgroup instructions run in pairs of CTAs (cuda/async/pairs.h) where they can: those with the
// hint num_ctas of 2 or more, unless TILE_PAIRS=0 says none or TILE_PAIRS=1 all.
enum class Pairs { none, hinted, all };
Pairs wanted_pairs();
// The properties of a chip that the generated source depends on.
struct Target {
  int arch = 90;                 // 90: compute capability 9.0
  int shared_bytes = 48 * 1024;  // per CTA
  int max_threads = 1024;        // per CTA
  int cluster_blocks = 16;       // most CTAs of a cluster, on chips with clusters
  // Maximum tile bytes per CTA: half the registers of 512 threads. Larger tiles are distributed
  // over a cluster, whose CTAs hold less, so that CTAs of other clusters fit on the same
  // multiprocessor.
  int block_bytes = 64 * 1024;
  int cluster_block_bytes() const { return std::min(block_bytes, 32 * 1024); }
  // The grid axis that a launch swaps with the first, the only one that may be long.
  int long_axis = 0;
  // Run products on warpgroup instructions where the arch has them. TILE_WGMMA=0 switches them off.
  bool wgmma = wgmma_is_on();
  Pairs pairs = wanted_pairs();
  bool operator==(const Target&) const = default;
};
inline bool multiplies_by_groups(const Target& target) { return target.wgmma && target.arch / 10 == 9; }
constexpr int oldest_arch = 80;  // the oldest arch that kernels run on
// Returns true if the CTAs of a launch may start before the previous kernel in the stream ends;
// they then wait for it themselves.
constexpr bool may_start_early(const Target& target) { return target.arch >= 90; }
constexpr int portable_cluster_blocks = 8;      // supported by every chip that has clusters
int most_cluster_blocks(const Target& target);  // 1: the chip has no clusters
// Returns how many bytes of tiles a kernel may keep at once, in the registers of one CTA or of the
// largest cluster.
int64_t most_tile_bytes(const Target& target);

struct Cluster;  // cuda/cluster.h
class Emitter;
class LayoutPlan;

// Choices for the compilation of a kernel.
struct Configuration {
  int warps = 0;                // log2 of a factor of the usual number: 1 doubles it, -1 halves it
  bool prefetch = true;         // of a loop's next iteration
  bool single_cta = false;      // one CTA per multiprocessor; otherwise ptxas saves registers so that two fit
  bool rematerialize = false;   // compute values again instead of keeping them in registers, as in clusters
  int blocks = 0;               // log2 of a factor of the usual number of CTAs of a cluster
  int occupancy = 0;            // target CTAs per multiprocessor; 0: the plan decides
  bool wgmma = true;            // use warpgroup instructions if the target has them
  bool panels_in_turn = false;  // compute a panel of an epilogue once the panel before it is stored
  bool skew = true;             // start a loop's last product in the next iteration
  bool hold = true;             // keep a part of left operands in registers while a loop multiplies them
  bool draw = true;             // let CTAs draw blocks that differ in work; otherwise keep the grid
};
// The first configuration is the usual one; the others are for kernels that spill registers with
// it. Of equally good ones the first is taken (runtime/configuration_cost.h).
inline constexpr Configuration configurations[] = {
    {},
    {.rematerialize = true},
    {.single_cta = true},
    {.single_cta = true, .rematerialize = true},
    {.prefetch = false, .single_cta = true},
    {.warps = 1, .single_cta = true},
    {.warps = -1, .single_cta = true},
    {.blocks = 1},
    {.warps = 2, .single_cta = true},
};
// The same for kernels on warpgroup instructions, which come first where the arch has them.
inline constexpr Configuration group_configurations[] = {
    {}, {.panels_in_turn = true}, {.skew = false}, {.hold = false}, {.draw = false}};
std::string text_of(const Configuration& configuration);  // "usual", "rematerialize, single CTA"

// A compiled kernel. A scalar argument is passed as its bytes. An array of rank n (rank 0 counts as 1) is
// passed as {void* data; int64_t strides[n]; int32_t sizes[n];} with strides in elements; a wide array has
// int64_t sizes. Errors name the user's line: a tile that is too large for the chip, or a primitive that has
// no GPU lowering.
struct Program {
  // Compiles a function after the passes.
  Program(const Function& function, const Target& target, const Configuration& configuration = {});

  std::string source;
  std::string entry;  // the kernel's symbol
  int threads = 0;    // per CTA
  // The instructions of the products, "wgmma", "mma.sync" or "fma", and why they are not wgmma; empty for a
  // kernel without products.
  std::string path, why;
  bool persistent = false;  // each CTA runs several blocks of the grid: as many are launched as run at once
  bool draws = false;       // the CTAs of a persistent kernel draw blocks from a counter of the launch
  int held = 1;             // CTAs that ptxas is to leave registers for on a multiprocessor
  int cluster = 1;          // CTAs that share a tile: one of the user's grid, along the first axis
  // The axis of the grid along which the two CTAs of a pair run neighbouring blocks, or -1. Such a kernel is
  // persistent; its launch has the CTAs of a pair along the first axis, and the pairs along the second.
  int pair_axis = -1;
  bool multiplies = false;  // uses tensor cores
  int shared_bytes = 0;
  std::vector<Conversion> conversions;  // moves of tiles between layouts, in source order
  // The assertions by their numbers in the source. A kernel that has some takes the device library's
  // FailureLocation, and writes {number + 1, first false element, x, y | z << 16 of the launched
  // block} there.
  std::vector<Assertion> assertions;
  std::vector<TensorMapSpec> tensor_maps;
  std::vector<Parameter> parameters;  // in the order in which the kernel takes them

 private:
  void finish(const Emitter& emitter, const LayoutPlan& plan);
  // Compiles with wgmma; sets `why` and returns false if the kernel cannot.
  bool make_async(const Function& function, const Target& target, const Configuration& configuration);
  // Returns false if the tiles cannot be distributed over so many CTAs.
  bool make(const Function& function, const Target& target, const Configuration& configuration,
            const Cluster& cluster);
};

// The device library: names and contents of the files that #include lines of Program::source refer
// to.
const std::vector<std::pair<std::string, std::string>>& device_library();

// Facts of a launch key about array parameter P, as attributes of the function:
//   array.P.unit     the axis whose stride is 1; absent if none is known
//   array.P.aligned  1: the base and all other strides are multiples of 16 bytes
//   array.P.words    1: it is not aligned, elements are smaller than 4 bytes, and the base and all other
//                    strides are multiples of these
//   array.P.whole    1: the extent of the unit axis is a multiple of 16 bytes
//   array.P.small    1: strides in bytes fit 32 bits, extents are below 2^29
//   array.P.wide     1: an extent does not fit i32
//   array.P.forward  1: strides of axes longer than 1 are positive, and no axis is empty
}  // namespace tile::cuda
