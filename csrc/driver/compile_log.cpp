// Reads NVRTC's logs line by line.
#include "driver/compile_log.h"

#include <charconv>
#include <cstdint>
#include <sstream>
#include <string_view>

namespace tile {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// Returns the text after the colon of "error:", "error #20-D:" or "fatal   :", or an empty string.
std::string_view after_colon(std::string_view rest) {
  rest = trim(rest);
  if (rest.starts_with('#')) {
    const size_t end = rest.find_first_of(": ");
    rest = trim(rest.substr(end == rest.npos ? rest.size() : end));
  }
  return rest.starts_with(':') ? trim(rest.substr(1)) : std::string_view();
}

// "user.py(12): " or "user.py(12): catastrophic "
bool read_location(std::string_view prefix, LogError& error) {
  const size_t close = prefix.rfind("): "), open = prefix.rfind('(', close);
  if (close == prefix.npos || open == prefix.npos) return false;
  const char *begin = prefix.data() + open + 1, *end = prefix.data() + close;
  if (std::from_chars(begin, end, error.line).ptr != end) return false;
  error.file = prefix.substr(0, open);
  return true;
}

}  // namespace

LogError first_error(const std::string& log) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(' ')) continue;  // a line of quoted source
    for (const std::string_view word : {"error", "fatal"}) {
      const size_t at = line.find(word);
      if (at == line.npos) continue;
      const std::string_view prefix = std::string_view(line).substr(0, at);
      const std::string_view message = after_colon(std::string_view(line).substr(at + word.size()));
      if (message.empty()) continue;
      LogError error;
      const bool tool =
          prefix.starts_with("ptxas") || prefix.starts_with("nvrtc") || prefix == "Command-line ";
      if (!tool && !read_location(prefix, error)) continue;
      error.message = message;
      return error;
    }
  }
  return {};
}

KernelResources resources_in(const std::string& log, const std::string& entry) {
  KernelResources resources;
  std::istringstream lines(log);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (const size_t at = line.find("Compiling entry function '"); at != line.npos)
      inside = line.find('\'' + entry + '\'', at) != line.npos;
    if (!inside) continue;
    // "40 bytes stack frame, 16 bytes spill stores": the number before the words.
    const auto read = [&](const char* words, int& value) {
      const size_t at = line.find(words);
      if (at == line.npos || at == 0) return;
      const size_t begin = line.find_last_not_of("0123456789", at - 1) + 1;
      std::from_chars(line.data() + begin, line.data() + at, value);
    };
    read(" registers", resources.registers);
    read(" bytes stack frame", resources.stack_bytes);
    read(" bytes spill stores", resources.spill_stores);
    read(" bytes spill loads", resources.spill_loads);
    read(" barriers", resources.barriers);
    read(" bytes smem", resources.shared_bytes);
  }
  return resources;
}

std::string performance_loss(const std::string& log) {
  constexpr std::string_view words = "Potential Performance Loss: ";
  const size_t at = log.find(words);
  if (at == log.npos) return {};
  const size_t begin = at + words.size();
  return log.substr(begin, log.find('\n', begin) - begin);
}

}  // namespace tile
