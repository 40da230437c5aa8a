// Atomic operations on elements that other blocks may access at the same time.
#pragma once
#include "dsl/array.h"
#include "ir/atomic.h"

namespace tile {

// The options of an atomic operation. `order`: what a block did before a releasing operation is visible to
// what another block does after an acquiring one that reads the released value, or a value that atomic
// operations derived from it. `scope`: the threads that this applies to: those of a block, of a device, or of
// all devices and the host. `mask`: a bool tile that broadcasts to the elements; where it is false nothing is
// done.
struct Atomic {
  MemoryOrder order = MemoryOrder::acq_rel;
  MemoryScope scope = MemoryScope::device;
  std::optional<Operand> mask = {};
};

// Operations on the elements array[index[0], index[1], …] for (broadcast) integer index tiles, each element
// atomically. They return the old values; outside the array and where the mask is false the result is 0, or
// for atomic_cas the expected value. If one call changes an element several times, all changes take effect,
// in any order. A block sees its own operations in program order. Values are cast to the array's dtype; the
// values of and, or and xor, and the expected value of cas, must have it already, because their bits are
// used.
Tile atomic_load(Array array, std::initializer_list<Operand> index,
                 Atomic how = {.order = MemoryOrder::acquire}, Location location = Location::current());
Tile atomic_load_offset(Array array, Operand offset, Atomic how = {.order = MemoryOrder::acquire},
                        Location location = Location::current());
void atomic_store(Array array, std::initializer_list<Operand> index, Operand value,
                  Atomic how = {.order = MemoryOrder::release});
void atomic_store_offset(Array array, Operand offset, Operand value,
                         Atomic how = {.order = MemoryOrder::release});
// For integers and floats; max and min ignore a NaN, and integer sums wrap.
Tile atomic_add(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_add(Array array, const std::vector<Operand>& index, Operand value, Atomic how = {});
Tile atomic_add_offset(Array array, Operand offset, Operand value, Atomic how = {});
Tile atomic_max(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_max_offset(Array array, Operand offset, Operand value, Atomic how = {});
Tile atomic_min(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_min_offset(Array array, Operand offset, Operand value, Atomic how = {});
// For integers and bool.
Tile atomic_and(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_and_offset(Array array, Operand offset, Operand value, Atomic how = {});
Tile atomic_or(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_or_offset(Array array, Operand offset, Operand value, Atomic how = {});
Tile atomic_xor(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_xor_offset(Array array, Operand offset, Operand value, Atomic how = {});
// For any dtype. atomic_cas writes `desired` if the element has the bits of `expected`.
Tile atomic_xchg(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_xchg_offset(Array array, Operand offset, Operand value, Atomic how = {});
Tile atomic_cas(Array array, std::initializer_list<Operand> index, Operand expected, Operand desired,
                Atomic how = {});
Tile atomic_cas_offset(Array array, Operand offset, Operand expected, Operand desired, Atomic how = {});

}  // namespace tile
