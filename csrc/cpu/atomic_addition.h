// Adds one lane to one element of memory, at once for all threads.
#pragma once
#include "cpu/tables.h"
#include "ir/dtype.h"

namespace tile::cpu {

class AtomicAddition {
 public:
  AtomicAddition() = default;
  explicit AtomicAddition(DType dtype);
  void operator()(char* address, const char* lane) const;

 private:
  DType dtype_ = DType::f32;
  ChunkFunction add_ = nullptr;
};

}  // namespace tile::cpu
