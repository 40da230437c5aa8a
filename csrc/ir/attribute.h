// Compile-time facts attached to an op: a sorted list of name = value.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/dtype.h"

namespace tile {

using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>, DType>;

std::ostream& operator<<(std::ostream& out, const Attribute& value);
std::string show_double(double value);  // shortest text that reads back; always has '.', 'e', inf or nan

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> entries);

  const Attribute* find(std::string_view name) const;
  void set(std::string_view name, Attribute value);
  void erase(std::string_view name);
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool operator==(const Attributes& other) const;

 private:
  std::vector<std::pair<std::string, Attribute>> entries_;  // sorted by name
};

}  // namespace tile
