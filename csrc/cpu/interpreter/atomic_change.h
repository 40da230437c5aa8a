// Changes one element of memory, at once for all threads.
#pragma once
#include "cpu/interpreter/tables.h"
#include "ir/atomic.h"

namespace tile::cpu {

class AtomicChange {
 public:
  AtomicChange() = default;
  // `combination`: the elementwise primitive of the element and the operand; empty: the operand itself.
  AtomicChange(DType dtype, std::string_view combination);
  // Lanes of the operand and, where wanted, of what stood there.
  void operator()(char* address, const char* lane, char* before = nullptr) const;
  void load(const char* address, char* lane) const;
  void store(char* address, const char* lane) const;
  // Where the element has the bits of `expected` it becomes `desired`.
  void compare(char* address, const char* expected, const char* desired, char* before) const;

 private:
  uint64_t element_of(const char* lane) const;
  void lane_of_element(uint64_t element, char* lane) const;

  DType dtype_ = DType::f32;
  ChunkFunction combine_ = nullptr;
  bool wraps_ = false;  // a sum of integers, whose lanes are their elements
};

}  // namespace tile::cpu
