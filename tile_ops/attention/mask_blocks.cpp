// The launches that sum a mask up.
#include "mask_blocks.h"

#include <algorithm>

#include "../common/tuning.h"

namespace tile::attention {
namespace {

Kernel flags_kernel("attention_mask_flags", mask_flags);
Kernel lists_kernel("attention_mask_lists", mask_lists);

at::Tensor for_all(const at::Tensor& one, int64_t batch, int64_t heads) {
  return one.expand({batch, heads, one.size(2), one.size(3)});
}

}  // namespace

bool pays_for_summary(int64_t rows, int64_t keys, const TileSize& tile) {
  return rows >= tuning::attention_summed_rows && keys >= tuning::attention_summed_keys &&
         tile.rows % flag_side == 0 && tile.cols % flag_side == 0;
}

int64_t bytes_of_bits(int64_t masks, int64_t rows, int64_t keys) {
  const int64_t words = std::max(rows * ceil_div(keys, word_columns), keys * ceil_div(rows, word_columns));
  return masks * words * words_a_row * static_cast<int64_t>(sizeof(int32_t));
}

int64_t MaskSummary::bytes() const {
  return static_cast<int64_t>(flags_.nbytes() + (bits_.defined() ? bits_.nbytes() : 0));
}

MaskSummary::MaskSummary(const at::Tensor& mask, const SeenKeys& seen, BitsOf bits)
    : bits_of_(bits), adds_(mask.scalar_type() != at::kBool) {
  const bool by_keys = bits == BitsOf::keys;
  const int64_t batch = mask.size(0), heads = mask.size(1), rows = mask.size(by_keys ? 3 : 2),
                cols = mask.size(by_keys ? 2 : 3);
  flags_ = at::empty({batch, heads, ceil_div(mask.size(2), flag_side), ceil_div(mask.size(3), flag_side)},
                     mask.options().dtype(at::kByte));
  const int read = mask.is_cpu() ? cpu_mask_rows : gpu_mask_rows;
  std::optional<at::Tensor> words;
  if (bits != BitsOf::nothing)
    words = bits_ = at::empty({batch, heads, rows, ceil_div(cols, word_columns) * words_a_row},
                              mask.options().dtype(at::kInt));
  if (flags_.numel())
    flags_kernel.launch({ceil_div(cols, mask_cols_read), ceil_div(rows, read), batch * heads},
                        {.mask = mask,
                         .flags = flags_,
                         .bits = words,
                         .offset = seen.offset,
                         .first = seen.first,
                         .by_keys = by_keys,
                         .rows = read});
}

at::Tensor MaskSummary::lists(int rows, int cols, bool by_keys) const {
  const int64_t own = flags_.size(by_keys ? 3 : 2), others = flags_.size(by_keys ? 2 : 3);
  const at::Tensor list =
      at::empty({flags_.size(0), flags_.size(1), ceil_div(own, rows), list_head + ceil_div(others, cols)},
                flags_.options().dtype(at::kInt));
  if (list.numel())
    lists_kernel.launch(
        {list.size(2), flags_.size(1), flags_.size(0)},
        {.flags = flags_, .list = list, .rows = rows, .cols = cols, .by_keys = by_keys, .adds = adds_});
  return list;
}

Visits<at::Tensor> MaskSummary::keys_of_queries(const TileSize& tile, int64_t batch, int64_t heads) const {
  Visits<at::Tensor> visits{for_all(lists(tile.rows / flag_side, tile.cols / flag_side, false), batch, heads),
                            std::nullopt};
  if (bits_of_ == BitsOf::queries) visits.bits = for_all(bits_, batch, heads);
  return visits;
}
Visits<at::Tensor> MaskSummary::queries_of_keys(const TileSize& tile, int64_t batch, int64_t heads) const {
  Visits<at::Tensor> visits{for_all(lists(tile.cols / flag_side, tile.rows / flag_side, true), batch, heads),
                            std::nullopt};
  if (bits_of_ == BitsOf::keys) visits.bits = for_all(bits_, batch, heads);
  return visits;
}

}  // namespace tile::attention
