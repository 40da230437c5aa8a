// A tile around one of its axes.
#pragma once
#include "ir/type.h"

namespace tile::cpu {

// A tile as [outer, axis, inner], row-major.
struct AxisSplit {
  int64_t outer = 1, size = 1, inner = 1;
  AxisSplit() = default;
  AxisSplit(const Shape& shape, int64_t axis) {
    for (size_t i = 0; i < shape.size(); ++i)
      (static_cast<int64_t>(i) < axis ? outer : static_cast<int64_t>(i) == axis ? size : inner) *= shape[i];
  }
};

}  // namespace tile::cpu
