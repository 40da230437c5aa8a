// What of an array argument is in the launch key, and what of that a GPU's text is made for.
#pragma once
#include "ir/op.h"
#include "runtime/argument.h"

namespace tile {

// On the CPU extents and strides are read at run time: dtype, rank and whether extents are wide. On a GPU the
// facts below too.
uint64_t key_word(const ArrayArgument& array);

// Whether an extent is larger than i32 holds.
bool has_wide_extents(const ArrayArgument& array);
// Whether an extent, a stride, the number of elements or the distance between two of them is.
bool has_far_elements(const ArrayArgument& array);

// Those facts as attributes of the function, as csrc/cuda/program.h names them; on the CPU array.P.wide
// alone.
void set_facts(Function& function, size_t parameter, const ArrayArgument& array);

}  // namespace tile
