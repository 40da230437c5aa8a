// Stands in for a header that ATen/functorch/Interpreter.h includes and torch's wheels do not ship. Only inline
// functions that nobody calls mention it, so declarations are enough.
#pragma once
#include <string>

namespace nlohmann {
struct json {
  json();
  template <class T>
  explicit json(const T&);
  std::string dump() const;
  static json parse(const std::string&);
  template <class T>
  T get() const;
};
}  // namespace nlohmann
