// Masks as linear forms: when a comparison holds, and when a load or store lies within its array.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "passes/bounds.h"

namespace tile {

struct Comparison {
  std::string_view primitive;
  // x op y holds everywhere where sign * (x - y) - offset >= 0, and fails everywhere where the negation does.
  int sign;  // 0: equality
  int offset;
  bool holds_if_equal;

  // The outcome is certain where any of these is never negative.
  std::vector<Linear> forms(const Linear& x, const Linear& y, bool outcome) const;
};
const Comparison* find_comparison(std::string_view primitive);

struct Access {
  std::string_view primitive;
  size_t first_index;  // operand number of the first index

  // The access is in bounds where all of these are never negative; nullopt: it cannot be said.
  std::vector<std::optional<Linear>> forms(const Op& op, Bounds& bounds) const;
};
const Access* find_access(std::string_view primitive);

}  // namespace tile
