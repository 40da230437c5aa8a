// Checks any text: parse() either refuses it with a located error, or returns a function whose text is a
// fixed point.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "ir/print.h"

namespace {

using tile::Function;

[[noreturn]] void broken(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

bool follows(std::string_view text, size_t at, size_t count) {  // bytes 10xxxxxx
  for (size_t i = 1; i <= count; ++i)
    if (at + i >= text.size() || (static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80) return false;
  return true;
}
// Roughly: enough to see a character cut apart.
bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const size_t more = byte < 0x80 ? 0 : byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 4;
    if (more == 4 || !follows(text, at, more)) return false;
    at += more;
  }
  return true;
}

void check_error(std::string_view text, const std::string& error) {
  unsigned line = 0, column = 0;
  if (std::sscanf(error.c_str(), "tile text %u:%u: ", &line, &column) != 2)
    broken("an error without a place: " + error);
  if (error.find("184467440737") != std::string::npos && text.find("184467440737") == std::string_view::npos)
    broken("an error with a number below 0: " + error);
  if (is_utf8(text) && !is_utf8(error)) broken("an error cuts a character apart: " + error);
}

std::optional<Function> parsed(std::string_view text) {
  try {
    return tile::parse(text);
  } catch (const tile::Error& error) {
    check_error(text, error.what());
  } catch (const std::exception& error) {
    broken(tile::str("not the parser's exception: ", error.what()));
  }
  return std::nullopt;
}

void check_fixed_point(const Function& function, bool locations) {
  const std::string text = print(function, locations);
  try {
    const std::string again = print(tile::parse(text), locations);
    if (again != text) broken("printed:\n" + text + "read and printed again:\n" + again);
  } catch (const std::exception& error) {
    broken(tile::str("its own text is refused: ", error.what(), '\n', text));
  }
}

}  // namespace

// The entry that libFuzzer calls; without clang main.cpp does.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const std::optional<Function> function = parsed(text)) {
    check_fixed_point(*function, false);
    check_fixed_point(*function, true);
  }
  return 0;
}
