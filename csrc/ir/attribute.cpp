// Implements attribute lists and their text.
#include "ir/attribute.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ir/type.h"

namespace tile {

Attributes::Attributes(std::initializer_list<std::pair<std::string, Attribute>> entries) {
  for (const auto& [name, value] : entries) set(name, value);
}

const Attribute* Attributes::find(std::string_view name) const {
  for (const auto& [key, value] : entries_)
    if (key == name) return &value;
  return nullptr;
}

void Attributes::set(std::string_view name, Attribute value) {
  auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                             [](const auto& entry, std::string_view key) { return entry.first < key; });
  if (at != entries_.end() && at->first == name)
    at->second = std::move(value);
  else
    entries_.emplace(at, std::string(name), std::move(value));
}

void Attributes::erase(std::string_view name) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == name; });
}

bool Attributes::operator==(const Attributes& other) const {
  // Compares texts, so that NaN equals NaN and 0.0 differs from -0.0.
  auto same = [](const auto& a, const auto& b) {
    if (a.first != b.first || a.second.index() != b.second.index()) return false;
    if (auto* x = std::get_if<double>(&a.second))
      return show_double(*x) == show_double(std::get<double>(b.second));
    return a.second == b.second;
  };
  return std::equal(begin(), end(), other.begin(), other.end(), same);
}

std::string show_double(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

namespace {
struct Show {
  std::ostream& out;
  void operator()(int64_t value) const { out << value; }
  void operator()(double value) const { out << show_double(value); }
  void operator()(const std::string& value) const {
    out << '"';
    for (char c : value) {
      if (c == '"' || c == '\\') out << '\\';
      out << (c == '\n' ? "\\n" : std::string(1, c));
    }
    out << '"';
  }
  void operator()(const std::vector<int64_t>& value) const {
    tile::operator<<(out, static_cast<const Shape&>(value));
  }
  void operator()(DType value) const { out << value; }
};
}  // namespace

std::ostream& operator<<(std::ostream& out, const Attribute& value) {
  std::visit(Show{out}, value);
  return out;
}

}  // namespace tile
