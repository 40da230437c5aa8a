// How a gradient of attention is cut into launches.
#include "splits.h"

#include <algorithm>

#include "tile/op.h"

namespace tile::attention {
namespace {

int64_t evenly(int64_t all, int64_t most) { return ceil_div(all, ceil_div(all, most)); }

}  // namespace

Limits split_limits;

std::vector<Split> splits_of(const Heads& of, int64_t head_bytes, const Limits& limits) {
  std::vector<Split> parts;
  const int64_t all = of.batch * of.key_heads;
  if (all == 0) return parts;
  const int64_t fit = std::max<int64_t>(limits.bytes / std::max<int64_t>(head_bytes, 1), 1),
                wanted = std::min(all, ceil_div(limits.blocks, std::max<int64_t>(of.key_tiles, 1))),
                group = std::max<int64_t>(of.group, 1),
                count = evenly(group, std::clamp<int64_t>(fit / wanted, 1, group)), most = fit / count;
  const bool whole_samples = most >= of.key_heads;
  const int64_t samples = whole_samples ? evenly(of.batch, most / of.key_heads) : 1,
                heads = whole_samples ? of.key_heads : evenly(of.key_heads, most);
  for (int64_t i = 0; i < of.batch; i += samples)
    for (int64_t j = 0; j < of.key_heads; j += heads)
      for (int64_t first = 0; first < group; first += count)
        parts.push_back({i, std::min(samples, of.batch - i), j, std::min(heads, of.key_heads - j), first,
                         std::min(count, of.group - first)});
  return parts;
}

std::optional<std::vector<Split>> splits_of_sums(const Heads& of, int64_t head_bytes, const Limits& limits) {
  if (head_bytes > limits.bytes || of.key_tiles == 0) return std::nullopt;
  auto parts = splits_of(of, head_bytes, limits);
  // The first is the largest.
  if (parts.size() > 1 && parts[0].samples * parts[0].key_heads * of.key_tiles < limits.fewest)
    return std::nullopt;
  return parts;
}

}  // namespace tile::attention
