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
// There are scores. summary: of the mask, which of_keys has not.
void run_operand_gradients(at::TensorList grads, const Problem& p, const OwnTiles& of_queries,
                           OwnTiles of_keys, const std::optional<MaskSummary>& summary);

}  // namespace tile::attention
