// The memory of tangents during an operator's forward mode: each launch of the thread then also computes
// tangents.
#pragma once
#include <atomic>

#include "runtime/argument.h"

namespace tile {

class TangentMemory {
 public:
  // A thread has at most one, during its lifetime.
  TangentMemory();
  virtual ~TangentMemory();
  TangentMemory(const TangentMemory&) = delete;

  // Called for the storage of each tensor that becomes an array. Returns where its memory begins, or where
  // that of a meta tensor would begin.
  virtual char* note(void* storage /* c10::StorageImpl* */) = 0;
  // Returns the array's tangents, which lie like the array in another memory, or none. If `make`, an array
  // that has none is given zeros.
  virtual std::optional<ArrayArgument> tangent(const ArrayArgument& array, bool make) = 0;

  // Returns null if there is none. This costs a launch one load.
  static TangentMemory* of_thread() { return count_.load(std::memory_order_relaxed) ? find() : nullptr; }
  // Throws an error if there is one: `what` does not compute tangents.
  static void require_none(std::string_view what);

 private:
  static TangentMemory* find();
  static std::atomic<int> count_;
};

}  // namespace tile
