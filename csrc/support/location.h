// A location in the user's source: file, line, and for Python kernels the column. In C++, default arguments
// capture it, so it is the caller's.
#pragma once
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace tile {

struct Location {
  const char* file = "";
  uint32_t line = 0;
  uint32_t column = 0;  // from 1; 0 if unknown

  // Builtins rather than std::source_location: same cost, and older clang has them too.
  static constexpr Location current(const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
    return {file, line, 0};
  }
  bool known() const { return line != 0; }
  std::string_view file_name() const {
    std::string_view path = file;
    return path.substr(path.rfind('/') + 1);
  }
  friend std::ostream& operator<<(std::ostream& out, const Location& at) {
    out << at.file_name() << ':' << at.line;
    return at.column ? out << ':' << at.column : out;
  }
};

// Keeps a file name alive for the life of the process; equal names share one copy.
const char* intern(std::string_view text);

}  // namespace tile
