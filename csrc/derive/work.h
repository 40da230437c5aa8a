// Weighs the work of a kernel as the bytes of memory that take the same time.
#pragma once
#include "ir/op.h"

namespace tile {

constexpr double elements_per_byte = 16;  // of elementwise arithmetic

// Operations of products. narrow: their operands have 16 bits at most.
constexpr double flops_per_byte(bool cpu, bool narrow) { return cpu ? 16 : narrow ? 64 : 8; }
inline bool is_narrow(DType dtype) { return info(dtype).bits <= 16; }

inline double elements_of(const Shape& shape) { return static_cast<double>(element_count(shape)); }
inline double bytes_of(DType dtype, const Shape& shape) { return elements_of(shape) * info(dtype).bytes; }
// A load, or a store; a short one takes as long as a sector of memory.
inline double access_of(DType dtype, const Shape& shape) { return 1.1 * bytes_of(dtype, shape) + 64; }

}  // namespace tile
