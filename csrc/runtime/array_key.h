// An array argument's part of the launch key, and the facts in it that GPU code is specialised for.
#pragma once
#include "ir/op.h"
#include "runtime/argument.h"

namespace tile {

// Returns an array's part of the launch key. On the CPU, extents and strides are read at run time, so it
// holds dtype, rank and whether extents are wide. On a GPU it also holds the facts below.
uint64_t key_word(const ArrayArgument& array);
// Returns the key word of an array at another address. word: that of the same array at a null pointer.
uint64_t with_data(uint64_t word, const void* data);

// Returns true if an extent does not fit i32.
bool has_wide_extents(const ArrayArgument& array);
// Returns true if an extent, a stride, the number of elements or the distance between two of them does not
// fit i32.
bool has_far_elements(const ArrayArgument& array);

// Sets these facts as attributes of the function, named as in csrc/cuda/program.h; on the CPU only
// array.P.wide. Existing facts of the function are replaced, such as those in text that was made for other
// arguments.
void set_facts(Function& function, size_t parameter, const ArrayArgument& array);

}  // namespace tile
