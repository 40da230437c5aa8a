// A place in the user's source: file and line. Captured by default arguments, so it is the caller's.
#pragma once
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace tile {

struct Location {
  const char* file = "";
  uint32_t line = 0;

  // Builtins rather than std::source_location: same cost, and older clang has them too.
  static constexpr Location current(const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
  bool known() const { return line != 0; }
  std::string_view file_name() const {
    std::string_view path = file;
    return path.substr(path.rfind('/') + 1);
  }
  friend std::ostream& operator<<(std::ostream& out, const Location& at) {
    return out << at.file_name() << ':' << at.line;
  }
};

// Keeps a file name alive for the life of the process; equal names share one copy.
const char* intern(std::string_view text);

}  // namespace tile
