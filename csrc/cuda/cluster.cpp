// Computes the liveness of tiles and chooses the cluster size from it.
#include "cuda/cluster.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <vector>

#include "cuda/layout.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

int64_t bytes_of(const Value* value) { return is_tile(value) ? cuda::bytes_of(value->type) : 0; }

// Returns true if the op computes its result element by element from tiles in registers.
bool streams(const Op& op) {
  if (op.results.empty() || op.traits().reads || !op.regions.empty()) return false;
  const int64_t elements = element_count(op.results[0]->type.shape);
  return std::all_of(op.operands.begin(), op.operands.end(), [&](const Value* operand) {
    return !is_tile(operand) || element_count(operand->type.shape) <= elements;
  });
}

LiveTiles live_tiles_of(const Block& block) {
  const size_t count = block.ops.size();
  std::unordered_map<const Value*, size_t> last;  // the last op that uses the value
  for (size_t i = count; i-- > 0;) {
    const Op& op = *block.ops[i];
    const auto use = [&](const Value* value, size_t at) {
      size_t& known = last[value];
      known = std::max(known, at);
    };
    size_t at = i;
    if (streams(op))
      for (const Value* result : op.results) at = std::max(at, last[result]);
    for (const Value* operand : op.operands) use(operand, at);
    for (const auto& region : op.regions)
      walk(*region, [&](const Op& inner) {
        for (const Value* operand : inner.operands) use(operand, i);
      });
  }
  LiveTiles all;
  std::vector<int64_t> live(count);
  for (size_t i = 0; i < count; ++i) {
    const Op& op = *block.ops[i];
    int64_t inside = 0;
    for (const auto& region : op.regions) {
      const LiveTiles each = live_tiles_of(*region);
      inside = std::max(inside, each.bytes);
      all.largest = std::max(all.largest, each.largest);
    }
    live[i] += inside;
    if (streams(op)) continue;
    for (const Value* result : op.results) {
      all.largest = std::max(all.largest, bytes_of(result));
      for (size_t k = i; k <= std::max(i, last[result]); ++k) live[k] += bytes_of(result);
    }
  }
  for (const int64_t bytes : live) all.bytes = std::max(all.bytes, bytes);
  return all;
}

}  // namespace

LiveTiles live_tiles(const Function& function) { return live_tiles_of(function.body()); }

Cluster cluster_of(const Function& function, const Target& target, const Configuration& configuration) {
  const auto [bytes, largest] = live_tiles(function);
  Cluster cluster{1, bytes};
  bool multiplies = false;
  walk(function.body(), [&](const Op& op) { multiplies |= op.is("mma"); });
  if (multiplies || largest <= target.block_bytes) return cluster;
  // The margin keeps small tiles next to a large one from requiring another CTA.
  const int64_t block_bytes = target.cluster_block_bytes() + target.cluster_block_bytes() / 16;
  const auto wanted =
      std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, (bytes + block_bytes - 1) / block_bytes)));
  const auto most = static_cast<uint64_t>(most_cluster_blocks(target));
  if (wanted > 1) {
    const int more = configuration.blocks;
    const uint64_t scaled = more > 0 ? wanted << more : std::max<uint64_t>(1, wanted >> -more);
    cluster.blocks = static_cast<int>(std::min(scaled, most));
  }
  cluster.tile_bytes = bytes / cluster.blocks;
  return cluster;
}

}  // namespace tile::cuda
