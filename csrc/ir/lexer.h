// Reads characters, names and numbers of the text form; every error carries line and column.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "support/error.h"

namespace tile {

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  void skip();  // white space and comments
  bool at_end() { return skip(), at_ == text_.size(); }
  bool peek(std::string_view token) { return skip(), text_.substr(at_, token.size()) == token; }
  bool peek_on_line(char c);  // before the line or a comment ends it
  bool accept_on_line(char c);
  bool accept(std::string_view token);
  void expect(std::string_view token);
  bool peek_assignment();                          // name =
  std::string_view name();                         // letters, digits, _ and .
  std::string_view until(std::string_view stops);  // without the space before it
  int64_t integer();
  std::string_view number();    // the characters of an integer or of a floating number
  std::string string();         // "…" with \" \\ \n
  Location location_comment();  // of a comment `// file:line` on the rest of this line; unknown if none
  size_t position() { return skip(), at_; }

  [[noreturn]] void fail_at(size_t position, std::string_view message,
                            ErrorKind kind = ErrorKind::value) const;
  template <class... A>
  [[noreturn]] void fail(const A&... parts) {
    fail_at(at_, str(parts...));
  }

 private:
  std::string shown();  // what stands here, for messages
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace tile
