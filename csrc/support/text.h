// Text building: str(a, b, …) concatenates anything that streams.
#pragma once
#include <sstream>
#include <string>
#include <string_view>

namespace tile {

template <class... A>
std::string str(const A&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// "a, b, c" of a range; `show` turns an element into something that streams.
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
