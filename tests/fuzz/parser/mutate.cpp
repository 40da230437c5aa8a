// Changes of texts: of bytes, tokens, numbers and lines.
#include "mutate.h"

#include <algorithm>
#include <cctype>

namespace fuzz {
namespace {

using Span = std::pair<size_t, size_t>;  // begin, end
constexpr size_t longest = 8000;         // bytes of a text

const std::vector<std::string> limits = {"0",
                                         "1",
                                         "-1",
                                         "2",
                                         "3",
                                         "63",
                                         "64",
                                         "65",
                                         "127",
                                         "256",
                                         "2147483647",
                                         "2147483648",
                                         "-2147483648",
                                         "4294967296",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "9223372036854775808",
                                         "1e999",
                                         "1e-999",
                                         "-0.0",
                                         "nan",
                                         "-nan",
                                         "inf",
                                         "-inf",
                                         "0x10",
                                         "1e",
                                         "00",
                                         "65536",
                                         "46341"};
const std::vector<std::string> pieces = {"{",
                                         "}",
                                         "(",
                                         ")",
                                         "[",
                                         "]",
                                         "%",
                                         "=",
                                         ",",
                                         ":",
                                         "\"",
                                         "\\",
                                         "//",
                                         " // a.cpp:3",
                                         "\n",
                                         "\r",
                                         "\t",
                                         "<",
                                         ">",
                                         "-",
                                         "array<f32,2>",
                                         "array<i32,1>",
                                         "array<u8,1>",
                                         "array<f8e4m3,2>",
                                         "array<bool,0>",
                                         "f32[]",
                                         "f32[2,3]",
                                         "i32[4]",
                                         "bool",
                                         "i8",
                                         "i64",
                                         "u8",
                                         "u32",
                                         "u64",
                                         "f8e4m3",
                                         "f8e5m2",
                                         "f16",
                                         "bf16",
                                         "tf32",
                                         "f32",
                                         "f64",
                                         "\xc3\xa9",
                                         "\xe2\x82\xac",
                                         "\xff",
                                         std::string(1, '\0'),
                                         "[]",
                                         "[0]",
                                         "[-1]",
                                         "[0,0]",
                                         "\"\"",
                                         "kernel",
                                         "yield",
                                         "%0",
                                         "%1"};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

// Words with what stands before them (%, -), and single characters.
std::vector<Span> tokens_of(std::string_view text) {
  std::vector<Span> list;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (is_word(text[at]) ||
        ((text[at] == '%' || text[at] == '-') && end < text.size() && is_word(text[end])))
      while (end < text.size() && is_word(text[end])) ++end;
    if (!std::isspace(static_cast<unsigned char>(text[at]))) list.emplace_back(at, end);
    at = end;
  }
  return list;
}

std::vector<Span> lines_of(std::string_view text) {
  std::vector<Span> list;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    list.emplace_back(at, end);
    at = end;
  }
  return list;
}

std::string part(std::string_view text, Span span) {
  return std::string(text.substr(span.first, span.second - span.first));
}
void replace(std::string& text, Span span, const std::string& by) {
  text.replace(span.first, span.second - span.first, by);
}

}  // namespace

Mutator::Mutator(std::vector<std::string> corpus, std::vector<std::string> words)
    : corpus_(std::move(corpus)), words_(std::move(words)) {
  words_.insert(words_.end(), pieces.begin(), pieces.end());
}

// A token of this text or of another, or a word.
std::string Mutator::token_of(std::string_view text) {
  const std::string_view from = below(3) ? text : std::string_view(pick(corpus_));
  const std::vector<Span> list = tokens_of(from);
  return list.empty() || below(4) == 0 ? pick(words_) : part(from, pick(list));
}

void Mutator::bytes(std::string& text) {
  const size_t at = below(text.size());
  switch (below(4)) {
    case 0:
      text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1u << below(8)));
      break;
    case 1:
      text[at] = static_cast<char>(random_());
      break;
    case 2:
      text.erase(at, 1 + below(8));
      break;
    case 3:
      text.insert(at, pick(words_));
      break;
  }
}

void Mutator::tokens(std::string& text) {
  const std::vector<Span> list = tokens_of(text);
  if (list.empty()) return;
  Span one = pick(list), two = pick(list);
  switch (below(4)) {
    case 0:
      replace(text, one, token_of(text));
      break;
    case 1:
      text.insert(one.first, token_of(text));
      break;
    case 2:
      replace(text, one, "");
      break;
    case 3: {
      if (two < one) std::swap(one, two);
      if (one == two) break;
      const std::string first = part(text, one), second = part(text, two);
      replace(text, two, first);
      replace(text, one, second);
      break;
    }
  }
}

void Mutator::number(std::string& text) {
  std::vector<Span> numbers;
  for (const Span& span : tokens_of(text))
    if (const char c = text[span.second - 1]; std::isdigit(static_cast<unsigned char>(c)))
      numbers.push_back(span);
  if (!numbers.empty()) replace(text, pick(numbers), pick(limits));
}

void Mutator::lines(std::string& text) {
  const std::vector<Span> list = lines_of(text);
  const Span one = pick(list), two = pick(list);
  const std::string line = part(text, one);
  switch (below(3)) {
    case 0:
      replace(text, one, "");
      break;
    case 1:
      text.insert(two.first, line);
      break;
    case 2:  // many: deep nesting, long lists
      for (size_t n = size_t{1} << below(8); n > 0 && text.size() + line.size() < longest; --n)
        text.insert(one.first, line);
      break;
  }
}

// A few lines of another text.
void Mutator::splice(std::string& text) {
  const std::string& other = pick(corpus_);
  const std::vector<Span> from = lines_of(other), to = lines_of(text);
  if (from.empty()) return;
  const size_t first = below(from.size()), last = std::min(first + below(6), from.size() - 1);
  text.insert(pick(to).first, part(other, {from[first].first, from[last].second}));
}

void Mutator::change(std::string& text) {
  switch (below(8)) {
    case 0:
      return bytes(text);
    case 1:
    case 2:
    case 3:
      return tokens(text);
    case 4:
    case 5:
      return number(text);
    case 6:
      return lines(text);
    case 7:
      return splice(text);
  }
}

std::string Mutator::text(uint64_t number) {
  random_.seed(number);
  std::string text = pick(corpus_);
  for (size_t edits = 1 + below(5); edits > 0; --edits) {
    if (text.empty()) text = pick(words_);
    change(text);
  }
  text.resize(std::min(text.size(), longest));
  return text;
}

}  // namespace fuzz
