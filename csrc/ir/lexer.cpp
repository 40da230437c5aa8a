// Splits text into names, numbers and strings.
#include "ir/lexer.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tile {
namespace {
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.';
}
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
}  // namespace

void Lexer::skip() {
  for (;;) {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    if (text_.substr(at_, 2) != "//") return;
    at_ = std::min(text_.find('\n', at_), text_.size());
  }
}

std::string Lexer::shown() {
  skip();
  if (at_ == text_.size()) return "the end of the text";
  size_t end = at_ + 1;
  if (is_name(text_[at_]))
    while (end < text_.size() && is_name(text_[end]) && end - at_ < 40) ++end;
  // The bytes of a UTF-8 character stay together: Python rejects a message with an incomplete character.
  while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xc0) == 0x80) ++end;
  return str('\'', text_.substr(at_, end - at_), '\'');
}

bool Lexer::peek_on_line(char c) {
  size_t at = text_.find_first_not_of(" \t", at_);
  return at != std::string_view::npos && text_[at] == c;
}

bool Lexer::accept_on_line(char c) {
  if (!peek_on_line(c)) return false;
  at_ = text_.find(c, at_) + 1;
  return true;
}

bool Lexer::accept(std::string_view token) {
  if (!peek(token)) return false;
  at_ += token.size();
  return true;
}

void Lexer::expect(std::string_view token) {
  if (!accept(token)) fail("expected '", token, "', found ", shown());
}

bool Lexer::peek_assignment() {
  skip();
  if (at_ == text_.size() || !is_name(text_[at_])) return false;
  size_t start = at_;
  name();
  bool found = peek("=");
  at_ = start;
  return found;
}

std::string_view Lexer::name() {
  skip();
  size_t start = at_;
  while (at_ < text_.size() && is_name(text_[at_])) ++at_;
  if (at_ == start) fail("expected a name, found ", shown());
  return text_.substr(start, at_ - start);
}

std::string_view Lexer::until(std::string_view stops) {
  skip();
  size_t end = std::min(text_.find_first_of(stops, at_), text_.size());
  std::string_view found = text_.substr(at_, end - at_);
  if (found.empty()) fail("expected a name, found ", shown());
  at_ = end;
  while (is_space(found.back())) found.remove_suffix(1);
  return found;
}

std::string_view Lexer::number() {
  skip();
  size_t start = at_;
  if (at_ < text_.size() && text_[at_] == '-') ++at_;
  while (at_ < text_.size() &&
         (is_name(text_[at_]) || ((text_[at_] == '+' || text_[at_] == '-') && text_[at_ - 1] == 'e')))
    ++at_;
  if (at_ == start) fail("expected a number, found ", shown());
  return text_.substr(start, at_ - start);
}

int64_t Lexer::integer() {
  size_t start = position();
  std::string_view digits = number();
  int64_t value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size())
    fail_at(start, str("expected an integer of 64 bits, found '", digits, "'"));
  return value;
}

std::string Lexer::string() {
  expect("\"");
  std::string value;
  for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
    if (text_[at_] != '\\') {
      value += text_[at_];
      continue;
    }
    if (++at_ == text_.size()) break;
    value += text_[at_] == 'n' ? '\n' : text_[at_];
  }
  if (at_ == text_.size()) fail("this string has no closing '\"'");
  ++at_;
  return value;
}

Location Lexer::location_comment() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  if (text_.substr(at_, 2) != "//") return {"", 0};
  size_t end = std::min(text_.find('\n', at_), text_.size());
  std::string_view comment = text_.substr(at_ + 2, end - at_ - 2);
  at_ = end;
  while (!comment.empty() && is_space(comment.front())) comment.remove_prefix(1);
  while (!comment.empty() && is_space(comment.back())) comment.remove_suffix(1);
  // file:line, or file:line:column
  const auto number_at_end = [&](uint32_t& number) {
    const size_t colon = comment.rfind(':');
    if (colon == comment.npos) return false;
    const char* last = comment.data() + comment.size();
    const auto [stop, error] = std::from_chars(comment.data() + colon + 1, last, number);
    if (error != std::errc() || stop != last) return false;
    comment = comment.substr(0, colon);
    return true;
  };
  uint32_t line = 0, column = 0;
  if (!number_at_end(line)) return {"", 0};
  if (uint32_t before = 0; number_at_end(before)) column = std::exchange(line, before);
  std::string_view file = comment;  // the file name that print() shows
  file.remove_prefix(file.rfind('/') + 1);
  while (!file.empty() && is_space(file.front())) file.remove_prefix(1);
  return {intern(file), line, column};
}

void Lexer::fail_at(size_t position, std::string_view message, ErrorKind kind) const {
  std::string_view before = text_.substr(0, position);
  size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  size_t column = position - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  throw Error(kind, str("tile text ", line, ':', column, ": ", message));
}

}  // namespace tile
