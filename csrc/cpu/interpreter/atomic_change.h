// Atomic accesses to elements of memory.
#pragma once
#include "cpu/interpreter/element_tables.h"
#include "ir/atomic.h"

namespace tile::cpu {

// Returns the function that applies an elementwise primitive to elements and operands; if `combination` is
// empty, the operand replaces the element. The dtype must have it. A block runs on one thread, so that its
// scope needs no locked instructions. In the others it does, even if the launch has one thread only: another
// launch, thread or process may change the same memory.
ChangeFunction atomic_change(DType dtype, std::string_view combination, MemoryScope scope);

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
