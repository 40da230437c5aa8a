// Implements the overlap checks of tensors with those of arrays.
#include "tile/overlap.h"

#include "runtime/overlap.h"

namespace tile {
namespace {

// A meta tensor has no address, only an offset in its storage.
Placed placed(const at::Tensor& t) {
  const int64_t address = t.is_meta() ? t.storage_offset() * static_cast<int64_t>(t.itemsize())
                                      : static_cast<int64_t>(reinterpret_cast<intptr_t>(t.const_data_ptr()));
  return {address, static_cast<int64_t>(t.itemsize()), t.sizes(), t.strides()};
}

}  // namespace

bool overlap(const at::Tensor& x, const at::Tensor& y) {
  if (x.numel() == 0 || y.numel() == 0) return false;
  if (x.is_meta() && !x.storage().is_alias_of(y.storage())) return false;
  return overlap(placed(x), placed(y));
}

bool overlaps_itself(const at::Tensor& x) { return x.numel() > 1 && overlaps_itself(placed(x)); }

}  // namespace tile
