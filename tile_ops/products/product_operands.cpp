// Checks the operands of one product, and batches its operators.
#include "product_operands.h"

namespace tile {

ProductSizes product_sizes(const at::Tensor& input, const at::Tensor& other) {
  require_floating("input", input);
  require_same_dtype("input", input, "other", other);
  if (input.dim() == 0 || other.dim() == 0)
    fail(ErrorKind::value, input.dim() == 0 ? "input" : "other",
         " has no dimensions; both operands need at least one");
  const auto mismatch = [&](const auto&... parts) {
    fail(ErrorKind::value, "cannot multiply input ", input.sym_sizes(), " by other ", other.sym_sizes(), "; ",
         parts...);
  };
  const c10::SymInt k = input.sym_size(-1), rows = other.sym_size(other.dim() == 1 ? 0 : -2);
  if (k != rows) mismatch("the inner extents ", k, " and ", rows, " differ");
  const int64_t batch_x = std::max<int64_t>(input.dim() - 2, 0),
                batch_y = std::max<int64_t>(other.dim() - 2, 0);
  ProductSizes sizes;
  for (int64_t axis = std::max(batch_x, batch_y); axis > 0; --axis) {
    const c10::SymInt x = axis > batch_x ? 1 : input.sym_size(batch_x - axis),
                      y = axis > batch_y ? 1 : other.sym_size(batch_y - axis);
    if (x != 1 && y != 1 && x != y) mismatch("the batch extents ", x, " and ", y, " do not broadcast");
    sizes.push_back(x == 1 ? y : x);
  }
  if (input.dim() > 1) sizes.push_back(input.sym_size(-2));
  if (other.dim() > 1) sizes.push_back(other.sym_size(-1));
  return sizes;
}

void require_broadcasts(const char* name, const std::optional<at::Tensor>& tensor,
                        const ProductSizes& sizes) {
  if (!tensor) return;
  require_floating(name, *tensor);
  require_fits(name, *tensor, sizes);
}

void require_fits(const std::string& name, const at::Tensor& tensor, const ProductSizes& sizes) {
  const int64_t rank = static_cast<int64_t>(sizes.size());
  bool fits = tensor.dim() <= rank;
  for (int64_t axis = 1; fits && axis <= tensor.dim(); ++axis)
    fits = tensor.sym_size(-axis) == 1 || tensor.sym_size(-axis) == sizes[static_cast<size_t>(rank - axis)];
  if (!fits)
    fail(ErrorKind::value, name, " ", tensor.sym_sizes(), " does not broadcast to the product ",
         c10::SymIntArrayRef(sizes), "; its extents must be 1 or equal, counted from the last");
}

VmapCall::Results batched_product(VmapCall& call, const std::vector<std::string>& tensors,
                                  const std::vector<std::string>& like) {
  const auto rank = [&](const std::string& name) {
    const c10::IValue& value = call[name];
    return value.isTensor() && value.toTensor().defined()
               ? value.toTensor().dim() - (call.batched(name) ? 1 : 0)
               : 0;
  };
  const int64_t x = rank("input"), y = rank("other"), most = std::max(x, y);
  if (x < 2 || y < 2) return call.loop();
  std::vector<int64_t> ranks;
  for (const std::string& name : like) ranks.push_back(name.empty() ? most : rank(name));
  for (const std::string& name : tensors) {
    const int64_t own = rank(name);
    c10::IValue& value = call[name];
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    at::Tensor tensor = value.toTensor();
    if (!call.batched(name)) {
      std::vector<c10::SymInt> sizes = tensor.sym_sizes().vec();
      sizes.insert(sizes.begin(), call.size());
      tensor = tensor.unsqueeze(0).expand_symint(sizes);
    }
    for (int64_t axis = own; axis < most; ++axis) tensor = tensor.unsqueeze(1);
    value = tensor;
  }
  VmapCall::Results results = call.call();
  for (size_t i = 0; i < results.size() && i < ranks.size(); ++i)
    for (int64_t axis = ranks[i]; results[i].defined() && axis < most; ++axis)
      results[i] = results[i].squeeze(1);
  return results;
}

}  // namespace tile
