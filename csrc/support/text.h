// Text building: str(a, b, …) concatenates anything that streams.
#pragma once
#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>

namespace tile {

// A part of a text with its type erased, so that functions are instantiated for each type, not for each
// combination of types.
struct TextPart {
  const void* value;
  void (*write)(std::ostream& out, const void* value);
};
inline TextPart text_part(const char* text) {
  return {text, [](std::ostream& out, const void* value) { out << static_cast<const char*>(value); }};
}
inline TextPart text_part(std::ios_base& (*manipulator)(std::ios_base&)) {  // std::hex and similar
  return {reinterpret_cast<const void*>(manipulator), [](std::ostream& out, const void* value) {
            reinterpret_cast<decltype(&std::hex)>(const_cast<void*>(value))(out);
          }};
}
template <class T>
TextPart text_part(const T& part) {
  return {&part, [](std::ostream& out, const void* value) { out << *static_cast<const T*>(value); }};
}
std::string str_of(std::initializer_list<TextPart> parts);

template <class... A>
std::string str(const A&... parts) {
  return str_of({text_part(parts)...});
}

// Returns "a, b, c" for a range; `show` turns an element into something that streams.
template <class Range, class Show>
std::string join(const Range& range, std::string_view separator, Show show) {
  std::ostringstream out;
  bool first = true;
  for (const auto& element : range) {
    if (!first) out << separator;
    first = false;
    out << show(element);
  }
  return out.str();
}
template <class Range>
std::string join(const Range& range, std::string_view separator = ", ") {
  return join(
      range, separator, [](const auto& element) -> const auto& { return element; });
}

}  // namespace tile
