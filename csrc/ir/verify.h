// Structural checks that run after every pass: dominance, terminators, region arguments, types.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "ir/op.h"

namespace tile {

struct BrokenRule {
  const Op* op;  // null: the function itself
  std::string text;
};
std::optional<BrokenRule> find_broken_rule(const Function& function);  // the first

// Throws an internal error that names `after`, the last pass, and the op.
void verify(const Function& function, std::string_view after);

}  // namespace tile
