// A C format of a print: its texts and conversions, checked against what is printed.
#pragma once
#include <string>
#include <vector>

#include "ir/op.h"

namespace tile {

// A text, and behind it the conversion of one value: "%-8.3f"; of integers with "ll", for the widest ones.
struct FormatPart {
  std::string text, conversion;  // "": the last part has none
  enum class Kind { none, signed_integer, unsigned_integer, floating } kind = Kind::none;
};

// Formats the values of an op by its attribute "format", one a conversion: d i u o x X for integers and bool,
// e E f F g G a A of floats; %% is a percent sign. A length modifier, as in %lld, is ignored. An unsigned
// dtype is never shown as negative. Error: another conversion, or one that does not fit its value.
std::vector<FormatPart> format_parts(const Op& op);

}  // namespace tile
