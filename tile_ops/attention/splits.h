// Divides a gradient of attention into launches, so that the memory of each for sums has a bound.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "../common/tuning.h"

namespace tile::attention {

// bytes: of a launch's sums. blocks: as many keep a chip's multiprocessors busy. fewest: with fewer, sums are
// not worth their cuts.
struct Limits {
  int64_t bytes = tuning::attention_sum_bytes, blocks = tuning::attention_part_blocks,
          fewest = tuning::attention_fewest_blocks;
};
// Those of all calls; tests of small shapes set others.
extern Limits split_limits;

// The heads of a call, and the blocks of one key head.
struct Heads {
  int64_t batch, key_heads, group, key_tiles;
};
// Samples with all their key heads, or one sample with some of them: a launch of tensors' own parts. A block
// that finds its sample and head as quotient and remainder, as those of backward_keys, spills more of a GPU's
// registers. Of each key head's query heads it has `count` from `first` on.
struct Split {
  int64_t sample, samples, key_head, key_heads, first, count;
};

// Parts of about one length whose query heads, of so many bytes each, fit: of whole groups if these make
// enough blocks, else of as many query heads of each as leave enough.
std::vector<Split> splits_of(const Heads& of, int64_t head_bytes, const Limits& limits = split_limits);
// The same; nothing where a query head does not fit or a part would have few blocks.
std::optional<std::vector<Split>> splits_of_sums(const Heads& of, int64_t head_bytes,
                                                 const Limits& limits = split_limits);

}  // namespace tile::attention
