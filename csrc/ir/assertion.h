// A kernel's assertions and the texts of their failures, which are the same on every target.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "ir/op.h"

namespace tile {

// Owns its strings: on a GPU an assertion may fail long after the kernel's source is freed.
struct Assertion {
  std::string where;  // "file.cpp:27"; empty if unknown
  std::string message, kernel;
  Shape shape;  // of the condition

  static Assertion of(const Op& op, const std::string& kernel);
};

// `element` is the row-major index of the first false element; `block` is the block's index in the grid.
std::string failure_text(const Assertion& assertion, int64_t element, const std::array<int64_t, 3>& block);

}  // namespace tile
