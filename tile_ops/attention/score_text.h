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

// A parsed text, a constant of kernels. Its names are the score, the numbers b, h, q and k of its sample,
// head, query and key, the same as integers, ib, ih, iq and ik, and the operands x0, x1 and so on.
struct ScoreText {
  std::shared_ptr<const ExpressionText> parsed;
  const ExpressionText* operator->() const { return parsed.get(); }
};
inline constexpr size_t axes_of_scores = 4, names_before_operands = 1 + 2 * axes_of_scores;
// Each parsed text lives as long as the process.
void key_words(LaunchKey& key, const ScoreText& text);

// The axes of a tile of scores along which an operand varies. The elements of a table are read at computed
// places.
enum Varies : int { nowhere = 0, by_query = 1, by_key = 2, by_both = 3, table = 4 };
inline constexpr size_t most_table_axes = 4;

template <class Array, class Integer>
struct ScoreTextOf {
  ScoreText text;
  std::vector<Varies> varies;
  std::vector<Array> operands;  // [batch, heads, query or 1, key or 1], or a table of any shape
  std::optional<Integer> samples_before,
      heads_before;  // in earlier launches: the text has the numbers of all
  // An index past the end of a table is an error where the score is seen. Elsewhere 0 is read there.
  bool checks = false;
};

}  // namespace tile::attention
