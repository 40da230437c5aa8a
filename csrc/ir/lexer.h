// Reads characters, names and numbers of the text form; every error has a line and a column.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "support/error.h"

namespace tile {

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  void skip();  // skips white space and comments
  bool at_end() { return skip(), at_ == text_.size(); }
  bool peek(std::string_view token) { return skip(), text_.substr(at_, token.size()) == token; }
  bool peek_on_line(char c);  // before the end of the line or a comment
  bool accept_on_line(char c);
  bool accept(std::string_view token);
  void expect(std::string_view token);
  bool peek_assignment();                          // name =
  std::string_view name();                         // letters, digits, _ and .
  std::string_view until(std::string_view stops);  // without trailing white space
  int64_t integer();
  std::string_view number();  // of an integer or a floating-point number
  std::string string();       // "…" with \" \\ \n
  // Returns the location in a comment `// file:line` on the rest of this line; unknown if there is none.
  Location location_comment();
  size_t position() { return skip(), at_; }

  [[noreturn]] void fail_at(size_t position, std::string_view message,
                            ErrorKind kind = ErrorKind::value) const;
  template <class... A>
  [[noreturn]] void fail(const A&... parts) {
    fail_at(at_, str(parts...));
  }

 private:
  std::string shown();  // the next characters, for messages
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace tile
