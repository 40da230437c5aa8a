// Atomically changes one element of memory.
#pragma once
#include "cpu/interpreter/tables.h"
#include "ir/atomic.h"

namespace tile::cpu {

class AtomicChange {
 public:
  AtomicChange() = default;
  // `combination` is the elementwise primitive to apply to the element and the operand; if empty, the operand
  // replaces the element.
  AtomicChange(DType dtype, std::string_view combination);
  // `lane` is the operand; the old value is written to `before` unless that is null.
  void operator()(char* address, const char* lane, char* before = nullptr) const;
  void load(const char* address, char* lane) const;
  void store(char* address, const char* lane) const;
  // Replaces the element by `desired` if it has the bits of `expected`.
  void compare(char* address, const char* expected, const char* desired, char* before) const;

 private:
  uint64_t element_of(const char* lane) const;
  void lane_of_element(uint64_t element, char* lane) const;

  DType dtype_ = DType::f32;
  ChunkFunction combine_ = nullptr;
  bool wraps_ = false;  // a sum of integers, whose lanes are their elements
};

}  // namespace tile::cpu
