// Changes of texts: of bytes, tokens, numbers and lines.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

class Mutator {
 public:
  // corpus: texts to change. words: words that may occur in them.
  Mutator(std::vector<std::string> corpus, std::vector<std::string> words);
  // The text of a number: the same wherever and whenever it is made.
  std::string text(uint64_t number);

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[below(list.size())];
  }
  std::string token_of(std::string_view text);
  void change(std::string& text);
  void bytes(std::string& text);
  void tokens(std::string& text);
  void number(std::string& text);
  void lines(std::string& text);
  void splice(std::string& text);

  std::vector<std::string> corpus_, words_;
  std::mt19937_64 random_;
};

}  // namespace fuzz
