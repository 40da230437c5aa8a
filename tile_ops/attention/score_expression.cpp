// Scores after a text, and its derivatives.
#include <functional>

#include "kernels.h"
#include "tile/expression_text.h"

namespace tile::attention {
namespace {

// The tile of an operand, 1 along an axis where it does not vary. own: [query, key] of it.
Tile operand_at(Array own, Varies varies, const Call& call, const Place& at, bool transposed) {
  const bool rows = varies & by_query, cols = varies & by_key;
  if (transposed) own = own.permute({1, 0});
  const int row_extent = rows ? call.rows : 1, col_extent = cols ? call.cols : 1;
  const Tile i = rows ? at.i : Tile(0), j = cols ? at.j : Tile(0);
  return transposed ? own.tiled_view({col_extent, row_extent}).load({j, i})
                    : own.tiled_view({row_extent, col_extent}).load({i, j});
}

}  // namespace

Tile ScoreRule::element(const Array& table, std::vector<Tile>& indices, const Place& at) const {
  std::optional<Tile> inside;
  std::vector<Operand> places;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    Tile& index = indices[axis];
    const Tile extent = table.dim(static_cast<int>(axis)).astype(index.dtype());
    index = where(index < 0, index + extent, index);
    Tile fits = (index >= 0) & (index < extent);
    inside = inside ? *inside & fits : fits;
    places.push_back(index);
  }
  if (call_.options.text->checks) {
    const Shape shape = transposed_ ? Shape{call_.cols, call_.rows} : Shape{call_.rows, call_.cols};
    Tile wrong = where(*inside | (row(at.i) >= call_.query.dim(2)), full({}, 0.0, f32), 1.0);
    assert_(only(wrong.broadcast_to(shape), 0, at) == 0,
            "each index into a table of the score is in its range");
  }
  return gather(table, places);
}

Tile ScoreRule::text(const Tile& score, const Place& at, const std::vector<int>& wanted,
                     std::vector<OperandGradient>* reads) const {
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
  const auto read = [&](size_t k, Tile tile, const std::vector<Tile>& indices) {
    if (tile.dtype() == DType::boolean || is_integer(tile.dtype())) return tile;
    tile = tile.astype(dtype);
    for (size_t n = 0; n < wanted.size(); ++n) {
      if (static_cast<size_t>(wanted[n]) != k) continue;
      tile = tile.broadcast_to(score.shape());
      std::vector<Tile> places;
      for (const Tile& index : indices) places.push_back(index.broadcast_to(score.shape()));
      reads->push_back({n, tile, std::move(places)});
    }
    return tile;
  };
  return (*of.text.parsed)(
      dtype,
      [&](size_t name) {
        if (name == 0) return score;
        if (name <= axes_of_scores) return numbers[name - 1]().astype(dtype);
        if (name < names_before_operands) return numbers[name - 1 - axes_of_scores]().astype(i32);
        const size_t k = name - names_before_operands;
        return read(k, operand_at(of.operands[k][{call_.batch, head_}], of.varies[k], call_, at, transposed_),
                    {});
      },
      [&](size_t name, const std::vector<Tile>& indices) {
        const size_t k = name - names_before_operands;
        std::vector<Tile> places = indices;
        const Tile value = element(of.operands[k], places, at);
        return read(k, value, places);
      });
}

Tile ScoreRule::of_text(const Tile& score, const Place& at, std::optional<Tile>* slope) const {
  const DType dtype = score.dtype();
  Tile result = text(score, at);
  if (slope) {
    const std::optional<Tile> derivative =
        derivatives({result}, {full(result.shape(), 1.0, dtype)}, {score})[0];
    const Tile known = derivative ? *derivative : zeros(score.shape(), dtype);
    *slope = known;
    if (call_.options.text->text->stays_finite()) return result;
    // Past the last query and where a score is hidden, the text may give no numbers, and 0 times these is not
    // 0.
    Tile exists = row(at.i) < call_.query.dim(2);
    *slope = only(where(exists, known, 0.0), 0.0, at);
    result = where(exists, result, 0.0);
  }
  return result;
}

std::vector<OperandGradient> ScoreRule::operand_gradients(const Tile& product, const Tile& grad_score,
                                                          const Place& at,
                                                          const std::vector<int>& wanted) const {
  std::vector<OperandGradient> found;
  const Tile result = text(product * scale, at, wanted, &found);
  std::vector<Tile> inputs;
  for (const OperandGradient& each : found) inputs.push_back(each.gradient);
  // Where the text may give no numbers, its derivatives are kept where a score is seen alone.
  const bool finite = call_.options.text->text->stays_finite();
  const Tile seed = finite ? grad_score : full(grad_score.shape(), 1.0, grad_score.dtype());
  const std::vector<std::optional<Tile>> gradients = derivatives({result}, {seed}, inputs);
  for (size_t n = 0; n < found.size(); ++n) {
    Tile& gradient = found[n].gradient;
    gradient = gradients[n] ? *gradients[n] : zeros(grad_score.shape(), grad_score.dtype());
    if (!finite) gradient = only(where(row(at.i) < call_.query.dim(2), gradient, 0.0), 0.0, at) * grad_score;
  }
  return found;
}

}  // namespace tile::attention
