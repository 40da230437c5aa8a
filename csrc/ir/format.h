// The C format of a print: its texts and conversions, checked against the printed values.
#pragma once
#include <string>
#include <vector>

#include "ir/op.h"

namespace tile {

// A text and the conversion of one value that follows it, such as "%-8.3f". Integer conversions have "ll",
// for the widest integers.
struct FormatPart {
  std::string text, conversion;  // conversion is "" in the last part
  enum class Kind { none, signed_integer, unsigned_integer, floating } kind = Kind::none;
};

// Matches the values of an op with the conversions of its attribute "format", one each: d i u o x X for
// integers and bool, e E f F g G a A for floats; %% is a percent sign. A length modifier, as in %lld, is
// ignored. An unsigned dtype is never shown as negative. Throws an error for another conversion, or one that
// does not fit its value.
std::vector<FormatPart> format_parts(const Op& op);

}  // namespace tile
