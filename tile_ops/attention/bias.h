// Ways in which kernels read a bias or a mask: by bits, by lists of the tiles that it leaves, or tile by
// tile.
#pragma once
#include "host_problem.h"
#include "mask_blocks.h"

namespace tile::attention {

Tensor four_dimensions(Tensor bias);
// [batch or 1, heads or 1, query or 1, key or 1]: samples and heads whose mask is in the same memory share
// it.
Tensor shared_mask(const Tensor& bias);
// [batch or 1, heads or 1, query, key] with stride 0 where rows or keys are broadcast.
OptionalTensor whole_bias(const OptionalTensor& bias, const Problem& p);

// The bytes of the mask's bits, and true if it is summed up in bits.
int64_t bits_of(const Tensor& bias, const Problem& p);
bool has_bits(const Tensor& bias, const Problem& p);
// Returns true if the mask is a bias that kernels read only where its summary finds numbers or a part hidden.
bool is_picked_out(const Tensor& bias, const Problem& p);
// Returns true if a ring of kernels on warpgroup instructions may hold the bias's tiles: deeper heads leave
// no shared memory for them.
bool fits_ring(const Tensor& bias, const Problem& p);
// Returns true if the copy unit can move the tiles there, too, so that these kernels do not wait for them.
bool is_copied_ahead(const Tensor& bias, const Problem& p);
// Returns true if the bias is taken to have numbers everywhere, so that a summary of it does not pay: masks
// are the same for all heads, and nobody wants their gradient.
bool takes_numbers(const Tensor& bias, bool wants_gradient);
inline bool has_numbers(const Tensor& bias, bool wants_gradient, const Problem& p) {
  return is_copied_ahead(bias, p) && takes_numbers(bias, wants_gradient);
}

// Returns true if a summary pays: on a CPU it takes as long as a few heads of a short head dim.
bool is_summed_up(const Tensor& bias, const Problem& p, const TileSize& tile);
// Heads and samples that share a mask share its summary.
MaskSummary summary_of(const Tensor& bias, const Problem& p, BitsOf bits);
// A mask's bits hide what options hide as well, so that kernels ask neither options nor a bool mask. A
// floating one may also have numbers.
void hide_in_bits(OptionalTensor& bias, HostRule& rule);

}  // namespace tile::attention
