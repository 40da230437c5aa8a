// Addresses of tensors, also of meta tensors, which stand for tensors on a GPU in an inspection.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>

#include "runtime/launch_observer.h"

namespace tile {

class StorageMemory {
 public:
  // Meta tensors have the memory that an emulation gives them, or none, and then an address that nobody
  // reads.
  char* of(c10::StorageImpl* storage) {
    if (storage->device_type() != c10::kMeta) return static_cast<char*>(storage->mutable_data());
    LaunchObserver* const observer = LaunchObserver::of_thread();
    if (!observer || !storage->nbytes()) return nullptr;
    if (char* const memory = observer->memory(storage)) return memory;
    constexpr uintptr_t alignment = 256, first = uintptr_t{1} << 40;
    const auto [known, added] = addresses_.try_emplace(storage, first + used_);
    if (added) used_ += (storage->nbytes() + alignment) / alignment * alignment;
    return reinterpret_cast<char*>(known->second);
  }
  // The address of a tensor's first element.
  char* of(const at::Tensor& tensor) {
    char* const begin = of(tensor.storage().unsafeGetStorageImpl());
    return begin ? begin + tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize()) : nullptr;
  }
  void forget(const c10::StorageImpl* storage) { addresses_.erase(storage); }

 private:
  std::map<const c10::StorageImpl*, uintptr_t> addresses_;  // of meta tensors
  uintptr_t used_ = 0;
};

// The bytes from a tensor's first element to the end of its last one.
inline int64_t span_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last = 0;
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) last += (tensor.size(axis) - 1) * tensor.stride(axis);
  return (last + 1) * static_cast<int64_t>(tensor.itemsize());
}

}  // namespace tile
