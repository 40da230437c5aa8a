// What of an array argument is in the launch key, and what of that a GPU's text is made for.
#pragma once
#include "ir/op.h"
#include "runtime/argument.h"

namespace tile {

// On the CPU extents and strides are read at run time: dtype and rank alone. On a GPU the facts below too.
uint64_t key_word(const ArrayArgument& array);

// Those facts as attributes of the function, as csrc/cuda/program.h names them; none on the CPU.
void set_facts(Function& function, size_t parameter, const ArrayArgument& array);

}  // namespace tile
