// The launches for gradients of operands of a text of scores.
#pragma once
#include "host_problem.h"
#include "mask_blocks.h"

namespace tile::attention {

// Parameters of a kernel whose blocks have a tile of queries, or one of keys.
struct OwnTiles {
  Incoming<Tensor> from;
  HostRule rule;
  TileSize tile;
};
// The call has at least one score. summary: that of the mask, if there is one; of_keys does not hold it.
void run_operand_gradients(at::TensorList grads, const Problem& p, const OwnTiles& of_queries,
                           OwnTiles of_keys, const std::optional<MaskSummary>& summary);

}  // namespace tile::attention
