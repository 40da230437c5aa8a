// Decides by a bias's extents, strides and sharing.
#include "bias.h"

#include "../common/tuning.h"

namespace tile::attention {
namespace {

// Tiles of at most so many rows and columns are whole blocks of a summary.
constexpr TileSize word_tile{flag_side, word_columns, 0};

}  // namespace

Tensor four_dimensions(Tensor bias) {
  while (bias.dim() < 4) bias = bias.unsqueeze(0);
  return bias;
}
Tensor shared_mask(const Tensor& bias) {
  Tensor mask = four_dimensions(bias);
  for (const int64_t axis : {0, 1})
    if (mask.size(axis) > 1 && mask.stride(axis) == 0) mask = mask.narrow(axis, 0, 1);
  return mask;
}
OptionalTensor whole_bias(const OptionalTensor& bias, const Problem& p) {
  if (!bias) return std::nullopt;
  const Tensor shared = shared_mask(*bias);
  return shared.expand({shared.size(0), shared.size(1), p.rows, p.keys});
}
int64_t bits_of(const Tensor& bias, const Problem& p) {
  const Tensor mask = shared_mask(bias);
  return bytes_of_bits(mask.size(0) * mask.size(1), p.rows, p.keys);
}
bool has_bits(const Tensor& bias, const Problem& p) {
  return pays_for_summary(p.rows, p.keys, word_tile) && bits_of(bias, p) <= tuning::attention_bits_bytes;
}
bool is_picked_out(const Tensor& bias, const Problem& p) {
  return bias.is_floating_point() && pays_for_summary(p.rows, p.keys, word_tile);
}
bool fits_ring(const Tensor& bias, const Problem& p) {
  constexpr int64_t deepest = 192;
  return bias.is_floating_point() && bias.element_size() <= 4 && p.depth <= deepest;
}
bool is_copied_ahead(const Tensor& bias, const Problem& p) {
  return fits_ring(bias, p) && has_tensor_map(to_array_argument(*whole_bias(bias, p)));
}
bool takes_numbers(const Tensor& bias, bool wants_gradient) {
  return wants_gradient || shared_mask(bias).size(1) > 1;
}
bool is_summed_up(const Tensor& bias, const Problem& p, const TileSize& tile) {
  const Tensor mask = shared_mask(bias);
  const int64_t shared_by = p.batch * p.heads / std::max<int64_t>(mask.size(0) * mask.size(1), 1);
  return pays_for_summary(p.rows, p.keys, tile) &&
         (!bias.is_cpu() || shared_by >= tuning::attention_cpu_shared_mask);
}
MaskSummary summary_of(const Tensor& bias, const Problem& p, BitsOf bits) {
  return {*whole_bias(bias, p), {p.rule.offset, p.rule.options.first}, bits};
}
void hide_in_bits(OptionalTensor& bias, HostRule& rule) {
  if (!bias->is_floating_point()) bias.reset();
  rule.options.first.reset();
}

}  // namespace tile::attention
