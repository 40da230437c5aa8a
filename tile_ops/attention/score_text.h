// A text of what becomes of each score, as kernels and launches take it.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "tile.h"

namespace tile {
class LaunchKey;
class ExpressionText;  // of tile/expression_text.h, which kernels need not know
}  // namespace tile

namespace tile::attention {

// A parsed text, a constant of kernels. Its names are the score, the numbers of its sample, head, query and
// key, and the operands x0, x1 and so on.
struct ScoreText {
  std::shared_ptr<const ExpressionText> parsed;
  const ExpressionText* operator->() const { return parsed.get(); }
};
inline constexpr size_t names_before_operands = 5;
// Each parsed text lives as long as the process.
void key_words(LaunchKey& key, const ScoreText& text);

// The axes of a tile of scores along which an operand varies.
enum Varies : int { nowhere = 0, by_query = 1, by_key = 2, by_both = 3 };

template <class Array, class Integer>
struct ScoreTextOf {
  ScoreText text;
  std::vector<Varies> varies;
  std::vector<Array> operands;  // [batch, heads, query or 1, key or 1]
  std::optional<Integer> samples_before,
      heads_before;  // in earlier launches: the text has the numbers of all
};

}  // namespace tile::attention
