// Declares the output of TILE_DUMP and TILE_LOG about compiled kernels. It goes to stderr; the Python module
// redirects the lines of TILE_LOG to Python's logging.
#pragma once
#include <chrono>
#include <cstdio>
#include <string_view>

#include "support/env.h"
#include "support/text.h"

namespace tile {

// Returns true if `what` is in the list TILE_DUMP=ir,cuda.
inline bool dumps(std::string_view what) {
  return (',' + environment("TILE_DUMP") + ',').find(str(',', what, ',')) != std::string::npos;
}
void dump(const std::string& text);

inline bool logs() {
  const std::string value = environment("TILE_LOG");
  return !value.empty() && value != "0";
}
// Sets the function that receives lines instead of stderr, or null for none. Any thread calls it, with any
// locks held.
void set_log_sink(void (*sink)(const std::string& line));
void write_log(const std::string& line);
// Writes one line per call; lines of several threads do not mix.
template <class... A>
void log_line(const A&... parts) {
  if (logs()) write_log(str(parts...));
}

// Prints "tile: warning: about: text" whatever TILE_LOG is, once per process for each `about`.
void warn_once(const std::string& about, const std::string& text);

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  // Returns text such as "12.3 ms", for the elapsed or a given time.
  std::string text() const { return text(seconds()); }
  static std::string text(double seconds) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.1f ms", seconds * 1e3);
    return digits;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace tile
