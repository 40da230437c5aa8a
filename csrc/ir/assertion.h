// Assertions of a kernel and the text of their failures, the same on every target.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "ir/op.h"

namespace tile {

// Owns its texts: on a GPU it may fail long after the kernel's source is gone.
struct Assertion {
  std::string where;  // "file.cpp:27"; empty: not known
  std::string message, kernel;
  Shape shape;  // of the condition

  static Assertion of(const Op& op, const std::string& kernel);
};

// `element`: the first that is false, counted in row-major order. `block`: where it stands in the grid.
std::string failure_text(const Assertion& assertion, int64_t element, const std::array<int64_t, 3>& block);

}  // namespace tile
