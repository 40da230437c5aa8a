// Atomic accesses to elements of memory.
#pragma once
#include "cpu/interpreter/atomic_launch.h"
#include "cpu/interpreter/element_tables.h"
#include "ir/atomic.h"

namespace tile::cpu {

// Applies an elementwise primitive to elements and operands.
class AtomicChange {
 public:
  AtomicChange() = default;
  // If `combination` is empty, the operand replaces the element. The dtype must have it.
  AtomicChange(DType dtype, std::string_view combination, MemoryScope scope);
  // As ChangeFunction, for a thread of `launch`.
  void operator()(const AtomicLaunch* launch, char* data, const int64_t* offsets, const char* lanes,
                  char* before, int64_t n) const;
  explicit operator bool() const { return functions_.atomic != nullptr; }

 private:
  ChangeFunctions functions_{};
  bool in_process_ = false;  // other processes do not change the elements
};

// Accesses to one element.
class AtomicElement {
 public:
  explicit AtomicElement(DType dtype = DType::f32) : dtype_(dtype) {}
  void load(const char* address, char* lane) const;
  void store(char* address, const char* lane) const;
  // Replaces the element by `desired` if it has the bits of `expected`.
  void compare(char* address, const char* expected, const char* desired, char* before) const;

 private:
  uint64_t element_of(const char* lane) const;
  void lane_of_element(uint64_t element, char* lane) const;

  DType dtype_;
};

}  // namespace tile::cpu
