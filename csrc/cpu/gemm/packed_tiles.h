// Operands of products, packed, for as long as a thread works on one launch: the keys of attention are
// multiplied by every tile of queries.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/dtype.h"
#include "support/aligned_memory.h"

namespace tile::cpu {

struct GemmKernels;

class PackedTiles {
 public:
  // The memory that was packed. The kernel does not write it.
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
  // Stays there until the second call after this one: a product has two operands.
  Buffer find(const Key& key, size_t bytes);
  void clear() { used_.assign(used_.size(), nullptr); }

 private:
  static size_t limit(size_t bytes);
  struct Entry {
    Key key;
    AlignedMemory memory;
  };
  std::vector<const void*> used_;  // each entry's data, side by side; null: free
  std::vector<Entry> entries_;
  size_t last_ = 0;
  uint32_t random_ = 1;
};

}  // namespace tile::cpu
