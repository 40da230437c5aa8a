// Overlap checks of tensors, based on those of arrays.
#pragma once
#include <ATen/core/Tensor.h>

#include "runtime/overlap.h"

namespace tile {

// Returns true if an element of one shares bytes with an element of the other. Tensors that are interleaved
// in memory, such as parts of one projection, do not. A meta tensor has no address, only an offset in its
// storage.
inline bool overlap(const at::Tensor& x, const at::Tensor& y) {
  if (x.numel() == 0 || y.numel() == 0) return false;
  if (x.is_meta() && !x.storage().is_alias_of(y.storage())) return false;
  const auto strided_memory = [](const at::Tensor& t) {
    const int64_t bytes = static_cast<int64_t>(t.itemsize());
    const auto pointer = [&] { return reinterpret_cast<intptr_t>(t.const_data_ptr()); };
    const int64_t address = t.is_meta() ? t.storage_offset() * bytes : static_cast<int64_t>(pointer());
    return StridedMemory{address, bytes, t.sizes(), t.strides()};
  };
  return overlap(strided_memory(x), strided_memory(y));
}

// Returns true if two elements share memory, as those of an expanded tensor do.
inline bool overlaps_itself(const at::Tensor& x) {
  return x.numel() > 1 &&
         overlaps_itself(StridedMemory{0, static_cast<int64_t>(x.itemsize()), x.sizes(), x.strides()});
}

}  // namespace tile
