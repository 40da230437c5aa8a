// Asks tensor maps and options, and copies what no map describes where that pays.
#include "group_operands.h"

#include "../common/aligned_rows.h"
#include "../common/tuning.h"

namespace tile::attention {

bool read_by_groups(const Tensor& tensor) {
  const ArrayArgument array = to_array_argument(tensor);
  return multiplies_by_groups(array) && has_tensor_map(array);
}
bool fits_groups(const OptionalTensor& bias, const Problem& p) {
  const auto& options = p.rule.options;
  const auto at_hand = [](Varies varies) { return varies == nowhere || varies == table; };
  const bool loads =
      options.text && !std::all_of(options.text->varies.begin(), options.text->varies.end(), at_hand);
  return !loads && (!bias || has_bits(*bias, p) || is_picked_out(*bias, p) || is_copied_ahead(*bias, p)) &&
         !(options.dropout && (p.depth > 128 || options.query_starts));
}
bool runs_by_groups(const Operands& of, const OptionalTensor& bias, const Problem& p) {
  return fits_groups(bias, p) && read_by_groups(of.query) && read_by_groups(of.key) &&
         read_by_groups(of.value);
}

GroupOperands::GroupOperands(const Operands& of, const OptionalTensor& grad_out, const OptionalTensor& bias,
                             bool wants_gradient, const Problem& p)
    : query_(of.query), key_(of.key), value_(of.value), grad_out_(grad_out), bias_(bias) {
  if (!multiplies_by_groups(to_array_argument(query_))) return;
  const bool pays =
      p.rows * p.group >= tuning::attention_copied_rows || p.keys <= tuning::attention_copied_rows;
  if (!pays) return;
  if (bias) copy_bias(wants_gradient, p);
  if (!fits_groups(bias_, p)) return;
  std::vector<Tensor*> copied;
  for (Tensor* tensor : {&query_, &key_, &value_, grad_out_ ? &*grad_out_ : nullptr})
    if (tensor && tensor->numel() && !read_by_groups(*tensor)) copied.push_back(tensor);
  int64_t bytes = bytes_;
  for (const Tensor* tensor : copied) bytes += bytes_in_aligned_rows(*tensor);
  if (bytes + (bias_ && has_bits(*bias_, p) ? bits_of(*bias_, p) : 0) > tuning::attention_bits_bytes) return;
  for (Tensor* tensor : copied) *tensor = copy_in_aligned_rows(*tensor);
  bytes_ = bytes;
}

void GroupOperands::copy_bias(bool wants_gradient, const Problem& p) {
  const Tensor own = shared_mask(*bias_);
  const auto& options = p.rule.options;
  const bool is_read = takes_numbers(own, wants_gradient) || !is_picked_out(own, p),
             is_whole = own.size(2) == p.rows && own.size(3) == p.keys;
  if (!fits_ring(own, p) || options.dropout || options.query_starts || !is_read || !is_whole ||
      is_copied_ahead(own, p) || bytes_in_aligned_rows(own) > tuning::attention_bits_bytes)
    return;
  bias_ = copy_in_aligned_rows(own);
  bytes_ = bytes_in_aligned_rows(own);
}

}  // namespace tile::attention
