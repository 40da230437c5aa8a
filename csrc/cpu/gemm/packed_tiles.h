// Packed operands of products, kept while a thread works on one launch. In attention, every tile of queries
// is multiplied by the same keys.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/dtype.h"
#include "support/aligned_memory.h"

namespace tile::cpu {

struct GemmKernels;

class PackedTiles {
 public:
  // Identifies the packed memory, which the kernel does not write.
  struct Key {
    const void* data = nullptr;
    int64_t rows = 0, columns = 0;
    long row_stride = 0, column_stride = 0;
    DType dtype = DType::f32;
    bool left = false;
    const GemmKernels* kernels = nullptr;
    bool operator==(const Key&) const = default;
  };
  struct Buffer {
    char* data;
    bool filled;  // by an earlier call with this key
  };
  // The buffer is valid until the second call after this one, since a product has two operands.
  Buffer find(const Key& key, size_t bytes);
  void clear() { used_.assign(used_.size(), nullptr); }

 private:
  static size_t limit(size_t bytes);
  struct Entry {
    Key key;
    AlignedMemory memory;
  };
  std::vector<const void*> used_;  // each entry's data, contiguous; null: free
  std::vector<Entry> entries_;
  size_t last_ = 0;
  uint32_t random_ = 1;
};

}  // namespace tile::cpu
