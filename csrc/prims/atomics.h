// Atomic operations: on elements that other blocks may touch at the same time.
#pragma once
#include "dsl/array.h"
#include "ir/atomic.h"

namespace tile {

// How an atomic operation is done. `order`: what a block did before one that releases is seen by a block in
// what it does behind one that acquires, where the second reads what the first wrote, or what others' changes
// made of it. `scope`: among the threads of a block, of a device, or of all devices and the host. `mask`, a
// bool tile that broadcasts to the elements: where it is false nothing happens.
struct Atomic {
  MemoryOrder order = MemoryOrder::acq_rel;
  MemoryScope scope = MemoryScope::device;
  std::optional<Operand> mask = {};
};

// Elements array[index[0], index[1], …] of the (broadcast) integer index tiles, each touched at once. The
// results are what stood there before; 0 outside the array and where the mask is false, of atomic_cas what
// was expected. Several changes of one element in one call all count, in any order. A block sees its own
// operations in the order of the program. Values are cast to the array's dtype; the values of and, or and
// xor, and the expected value of cas, must have it already, because their bits matter.
Tile atomic_load(Array array, std::initializer_list<Operand> index,
                 Atomic how = {.order = MemoryOrder::acquire}, Location location = Location::current());
Tile atomic_load_offset(Array array, Operand offset, Atomic how = {.order = MemoryOrder::acquire},
                        Location location = Location::current());
void atomic_store(Array array, std::initializer_list<Operand> index, Operand value,
                  Atomic how = {.order = MemoryOrder::release});
void atomic_store_offset(Array array, Operand offset, Operand value,
                         Atomic how = {.order = MemoryOrder::release});
// Integers and floats; max and min ignore a NaN, and integer sums wrap.
Tile atomic_add(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_add_offset(Array array, Operand offset, Operand value, Atomic how = {});
Tile atomic_max(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_max_offset(Array array, Operand offset, Operand value, Atomic how = {});
Tile atomic_min(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_min_offset(Array array, Operand offset, Operand value, Atomic how = {});
// Integers and bool.
Tile atomic_and(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_and_offset(Array array, Operand offset, Operand value, Atomic how = {});
Tile atomic_or(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_or_offset(Array array, Operand offset, Operand value, Atomic how = {});
Tile atomic_xor(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_xor_offset(Array array, Operand offset, Operand value, Atomic how = {});
// Any dtype. atomic_cas writes `desired` where the element has the bits of `expected`.
Tile atomic_xchg(Array array, std::initializer_list<Operand> index, Operand value, Atomic how = {});
Tile atomic_xchg_offset(Array array, Operand offset, Operand value, Atomic how = {});
Tile atomic_cas(Array array, std::initializer_list<Operand> index, Operand expected, Operand desired,
                Atomic how = {});
Tile atomic_cas_offset(Array array, Operand offset, Operand expected, Operand desired, Atomic how = {});

}  // namespace tile
