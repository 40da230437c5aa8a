// The parameters of a call's kernels, found on the host, and what the launches of both directions share.
#pragma once
#include "problem.h"

namespace tile::attention {

// A GPU's registers hold, besides scores, a bias, or the numbers and distances of options.
enum class Beside { nothing, bias, options };

using HostRule = RuleOf<Tensor, int, double>;
struct Problem {
  Problem(const Operands& of, const Request& request, const Packed* packed, const HostText* text = nullptr);
  // Farther than any key: lengths are far below it, and sums of the two are int32.
  static constexpr int64_t farthest = 1 << 29;
  int64_t batch, heads, rows, key_heads, keys, depth, group;  // rows and keys: of the longest sample
  std::optional<int64_t> all_rows;                            // of packed samples
  HostRule rule;

  // Returns true if no option hides a key from any query.
  bool shows_all_keys() const { return !rule.options.first && rule.offset >= (all_rows ? farthest : keys); }
  int64_t usual_rows() const { return all_rows ? *all_rows / std::max<int64_t>(batch, 1) : rows; }
  // Samples in arrays of whole tiles of a launch's samples, and the tiles of each, see Sample.
  int64_t tiled_samples(int64_t samples) const { return all_rows ? 1 : samples; }
  int64_t whole_tiles(int64_t tile_rows) const {
    return all_rows && rows ? *all_rows / tile_rows + batch : ceil_div(rows, tile_rows);
  }

  bool reads_tables() const {
    const auto& text = rule.options.text;
    return text && std::find(text->varies.begin(), text->varies.end(), table) != text->varies.end();
  }
  Beside beside(const OptionalTensor& bias) const {
    const auto& options = rule.options;
    if (options.softcap || options.slopes || options.dropout || options.text) return Beside::options;
    return bias ? Beside::bias : Beside::nothing;
  }
};

// Returns true if heads are the grid's first axis, which a kernel's BlockIndex must know; and that grid.
inline bool heads_first(const Tensor& query) { return !query.is_cpu(); }
inline Grid grid_of(const Tensor& query, int64_t tiles, int64_t heads, int64_t batch) {
  return heads_first(query) ? Grid{heads, tiles, batch} : Grid{tiles, heads, batch};
}
// [batch, key heads, group * queries, head dim], if the strides allow.
std::optional<ArrayArgument> joined(const Tensor& query, int64_t key_heads);
inline OptionalTensor if_any(const OptionalTensor& tensor) {
  return tensor && tensor->numel() ? tensor : std::nullopt;
}

}  // namespace tile::attention
