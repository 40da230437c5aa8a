// Parses a C format.
#include "ir/format.h"

namespace tile {

std::vector<FormatPart> format_parts(const Op& op) {
  const std::string& format = op.text("format");
  std::vector<FormatPart> parts(1);
  size_t values = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    FormatPart& part = parts.back();
    if (format[i] != '%' || (i + 1 < format.size() && format[i + 1] == '%')) {
      part.text += format[i];
      i += format[i] == '%';
      continue;
    }
    const size_t after_width = format.find_first_not_of("-+ #0123456789.", i + 1);
    const size_t end = format.find_first_not_of("hljztL", after_width);  // the dtype determines the length
    const char letter = end == std::string::npos ? '\0' : format[end];
    const std::string given = format.substr(i, end == std::string::npos ? end : end - i + 1);
    const bool integer = letter && std::string_view("diuoxX").find(letter) != std::string_view::npos;
    if (!integer && (!letter || std::string_view("eEfFgGaA").find(letter) == std::string_view::npos))
      fail(op, ErrorKind::value, "the conversion ", given, " of '", format,
           "' is not known; use d i u o x X for integers and e E f F g G a A for floats");
    if (values == op.operands.size())
      fail(op, ErrorKind::value, "'", format, "' has more conversions than the ", values,
           " values; give a value for each");
    const Type& type = op.type(values++);
    if (integer == is_floating(type.dtype))
      fail(op, ErrorKind::type, "the conversion ", given, " does not fit ", type, "; ",
           integer ? "use f, or cast with astype()" : "use d, or cast with astype()");
    part.conversion = format.substr(i, after_width - i) + letter;
    part.kind = FormatPart::Kind::floating;
    if (integer) {
      const bool shows_sign = (letter == 'd' || letter == 'i') && !is_unsigned(type.dtype);
      part.kind = shows_sign ? FormatPart::Kind::signed_integer : FormatPart::Kind::unsigned_integer;
      part.conversion.insert(part.conversion.size() - 1, "ll");
      if (!shows_sign && (letter == 'd' || letter == 'i')) part.conversion.back() = 'u';
    }
    parts.emplace_back();
    i = end;
  }
  if (values != op.operands.size())
    fail(op, ErrorKind::value, "'", format, "' has ", values, " conversions for ", op.operands.size(),
         " values; give a conversion for each");
  return parts;
}

}  // namespace tile
