// Scores after a text, and its derivatives.
#include <functional>

#include "kernels.h"
#include "tile/expression_text.h"

namespace tile::attention {

// The tile of an operand, 1 along an axis where it does not vary. own: [query, key] of it.
static Tile operand_at(Array own, Varies varies, const Call& call, const Place& at, bool transposed) {
  const bool rows = varies & by_query, cols = varies & by_key;
  if (transposed) own = own.permute({1, 0});
  const int row_extent = rows ? call.rows : 1, col_extent = cols ? call.cols : 1;
  const Tile i = rows ? at.i : Tile(0), j = cols ? at.j : Tile(0);
  return transposed ? own.tiled_view({col_extent, row_extent}).load({j, i})
                    : own.tiled_view({row_extent, col_extent}).load({i, j});
}

Tile ScoreRule::of_text(const Tile& score, const Place& at, std::optional<Tile>* slope) const {
  const ScoreTextOf<Array, Tile>& of = *call_.options.text;
  const DType dtype = score.dtype();
  const auto among_all = [&](const Tile& own, const std::optional<Tile>& before) {
    return before ? own + *before : own;
  };
  const std::vector<std::function<Tile()>> numbers{
      [&] { return among_all(call_.batch, of.samples_before); },
      [&] { return among_all(head_, of.heads_before); },
      [&] { return row(at.i); },
      [&] { return col(at.j); },
  };
  Tile result = (*of.text.parsed)(dtype, [&](size_t name) {
    if (name == 0) return score;
    if (name < names_before_operands) return numbers[name - 1]().astype(dtype);
    const size_t k = name - names_before_operands;
    Tile operand = operand_at(of.operands[k][{call_.batch, head_}], of.varies[k], call_, at, transposed_);
    return operand.dtype() == DType::boolean ? operand : operand.astype(dtype);
  });
  if (slope) {
    const std::optional<Tile> derivative =
        derivatives({result}, {full(result.shape(), 1.0, dtype)}, {score})[0];
    const Tile known = derivative ? *derivative : zeros(score.shape(), dtype);
    *slope = known;
    if (of.text->stays_finite()) return result;
    // Past the last query and where a score is hidden, the text may give no numbers, and 0 times these is not
    // 0.
    Tile exists = row(at.i) < call_.query.dim(2);
    *slope = only(where(exists, known, 0.0), 0.0, at);
    result = where(exists, result, 0.0);
  }
  return result;
}

}  // namespace tile::attention
