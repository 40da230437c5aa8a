// Masks as linear forms: conditions under which a comparison holds, and a load or store is inside its array.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "passes/bounds.h"

namespace tile {

struct Comparison {
  std::string_view primitive;
  // x op y holds for all elements if sign * (x - y) - offset >= 0, and fails for all if the negated
  // comparison holds.
  int sign;  // 0: equality
  int offset;
  bool holds_if_equal;

  // The outcome is certain if any of these forms is nonnegative.
  std::vector<Linear> forms(const Linear& x, const Linear& y, bool outcome) const;
};
const Comparison* find_comparison(std::string_view primitive);

struct Access {
  std::string_view primitive;
  size_t first_index;  // operand number of the first index

  // The access is in bounds if all of these forms are nonnegative; nullopt: unknown.
  std::vector<std::optional<Linear>> forms(const Op& op, Bounds& bounds) const;
};
const Access* find_access(std::string_view primitive);

}  // namespace tile
