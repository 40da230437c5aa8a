// Scores of a tile of queries and keys, and which of them are seen.
#include <limits>

#include "kernels.h"

namespace tile::attention {

double least_number(DType dtype) {
  return dtype == f64 ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
}

namespace {

Tile scalar_of(const Array& array, const Operand& index) {
  return array.tiled_view({1}).load({index}).reshape(Shape{});
}

// A block of four random words serves queries r and r + side by keys c and c + side: whichever of them are
// the rows of a product's sums, one thread holds all four.
constexpr int side = 8;

}  // namespace

Sample::Sample(const std::optional<Array>& starts, const Tile& batch) : batch_(batch) {
  if (!starts) return;
  const auto at = [&](const Operand& index) { return (*starts)[{index}].tiled_view(Shape{}).load({}); };
  start = at(batch).astype(i32);
  stop = at(batch + 1).astype(i32);
}

Call::Call(const Inputs<Array>& in, const Tile& batch, const Rule& rule, const TileSize& tile)
    : query(in.query),
      key(in.key),
      batch(batch),
      scale(rule.scale.astype(sum_dtype(query.dtype()))),
      offset(rule.offset),
      group(rule.group),
      rows(tile.rows),
      cols(tile.cols),
      options(rule.options),
      queries(options.query_starts, batch),
      keys(options.key_starts, batch) {
  if (!options.from_last) return;
  const Tile more = key_count() - queries.of(query, 0).dim(0);
  offset += more;
  for (std::optional<Tile>* each : {&options.first, &options.diagonal})
    if (*each) **each += more;
}

Range Call::seeing_rows(const Tile& j, const Tile& all) const {
  // With packed samples the grid has as many tiles as the longest sample.
  Tile row_tiles = keys.start ? where(j * cols < key_count(), all, 0) : all;
  Tile low = options.all_keys ? Tile(0) : max(j * cols - offset, 0) / rows;
  if (!options.first) return range(low, row_tiles);
  return range(low, min(row_tiles, cdiv(max((j + 1) * cols - *options.first, 0), rows)));
}

Visited::Visited(const Inputs<Array>& in, const Tile& head, const Tile& batch, const Tile& own, bool by_keys)
    : list_(in.visits->list[{batch, head, own}]),
      own_(own),
      by_keys_(by_keys),
      only_whole_(in.bias && in.bias->dtype() != boolean && !in.visits->bits),
      partly_(number(1)),
      count_(number(2)) {
  // Bits hide as the bias does, which is then read only for the numbers in it.
  if (in.bias && in.bias->dtype() != boolean) biased_ = in.visits->bits ? number(0) : partly_;
}

ScoreRule::ScoreRule(const Call& call, const Tile& head, const Inputs<Array>& in, bool transposed)
    : scale(call.scale), call_(call), head_(head), key_count_(call.key_count()), transposed_(transposed) {
  if (in.bias) {
    Array own = (*in.bias)[{min(call.batch, in.bias->dim(0) - 1), min(head, in.bias->dim(1) - 1)}];
    (in.bias->dtype() == boolean ? mask_ : bias_) =
        transposed ? own.permute({1, 0}).tiled_view({call.cols, call.rows})
                   : own.tiled_view({call.rows, call.cols});
  }
  if (in.visits && in.visits->bits)
    bits_ =
        (*in.visits->bits)[{call.batch, head}].tiled_view({transposed ? call.cols : call.rows, words_a_row});
  if (call.options.slopes)
    slope_ = scalar_of((*call.options.slopes)[{call.batch}], head).astype(scale.dtype());
  if (call.options.softcap) cap_ = call.options.softcap->astype(scale.dtype());
}

Tile ScoreRule::row(const Tile& i) const {
  return i * call_.rows +
         arange(call_.rows).reshape(transposed_ ? Shape{1, call_.rows} : Shape{call_.rows, 1});
}
Tile ScoreRule::col(const Tile& j) const {
  return j * call_.cols +
         arange(call_.cols).reshape(transposed_ ? Shape{call_.cols, 1} : Shape{1, call_.cols});
}

Tile ScoreRule::seen_by_bits(const Place& at) const {
  const int rows = transposed_ ? call_.cols : call_.rows, cols = transposed_ ? call_.rows : call_.cols,
            of_word = word_columns / cols;  // tiles whose bits are in one word
  const Tile &row = transposed_ ? at.j : at.i, &col = transposed_ ? at.i : at.j;
  Tile word = bits_->load({row, col / of_word}).reshape({rows, 1, words_a_row, 1});
  Tile number = arange(cols / words_a_row).reshape({1, cols / (2 * words_a_row), 1, 2});
  if (of_word > 1) number += col % of_word * (word_bits / of_word);
  return ((word >> number & 1) != 0).reshape({rows, cols});
}

Tile ScoreRule::only(Tile values, double hidden, const Place& at) const {
  const auto or_whole = [&](const Tile& seen) { return at.whole ? seen | *at.whole : seen; };
  if (bits_) return where(or_whole(seen_by_bits(at)), values, hidden);
  if (mask_) values = where(or_whole(load(*mask_, at)), values, hidden);
  const Options& options = call_.options;
  Tile r = row(at.i), c = col(at.j);
  std::optional<Tile> seen;
  const auto ask = [&](const Tile& of) { seen = seen ? *seen & of : of; };
  if (!options.whole_keys) ask(c < key_count_);
  if (!options.all_keys) ask(c <= r + call_.offset);
  if (options.first) ask(c >= r + *options.first);
  return seen ? where(or_whole(*seen), values, hidden) : values;
}

Tile ScoreRule::seen_bias(const Place& at) const {
  return only(load(*bias_, at), -std::numeric_limits<double>::infinity(), at);
}

Tile ScoreRule::score(const Tile& product, const Place& at, std::optional<Tile>* slope) const {
  const auto& [i, j, whole, adds, loaded] = at;
  const auto bias = [&] { return (at.bias ? *at.bias : load(*bias_, at)).astype(scale.dtype()); };
  const bool biased = bias_ && adds;
  Tile score;
  if (cap_) {
    Tile t = tanh(product * (scale / *cap_));
    if (slope) *slope = 1 - t * t;
    score = t * *cap_;
    if (biased) score += bias();
  } else {
    score = biased ? fma(product, scale, bias()) : product * scale;
  }
  if (slope_)
    score = fma(abs(row(i) + *call_.options.diagonal - col(j)).astype(scale.dtype()), -*slope_, score);
  return call_.options.text ? of_text(score, at, slope) : score;
}

static Tile first_row_block(const Call& call, Tile head);
std::optional<Tile> ScoreRule::kept(const Tile& i, const Tile& j) const {
  const Options& options = call_.options;
  if (!options.dropout) return std::nullopt;
  // A block's number does not depend on the tiles: that of its rows among all heads' in the high half, that
  // of its keys in the low one. Their ranges have other dtypes than those of masks, so that the compiler does
  // not make both one: threads hold other elements of each.
  const auto blocks = [](const Tile& tile, int extent, int axis, DType dtype) {
    Shape shape{1, 1, 1, 1, 1, 1};
    shape[axis] = extent / (2 * side), shape[axis + 2] = side;
    return arange(extent / 2, dtype).reshape(shape) + tile.astype(dtype) * (extent / 2);
  };
  // A tile of this sample and head has its number behind those of all before it, also if a launch has only
  // some heads.
  Tile row = blocks(i, call_.rows, transposed_ ? 3 : 0, u64),
       col = blocks(j, call_.cols, transposed_ ? 0 : 3, u32).astype(u64);
  row += first_row_block(call_, head_);
  Tile number = ((row << 32) + col) << 1;
  Tile key = scalar_of(*options.seed, 0), stream = scalar_of(*options.seed, 1);
  // The greatest word that drops an element; no fraction above 0 keeps all.
  constexpr double words = 4294967296.0;
  Tile most = (max(ceil(options.dropout->astype(f64) * words), 1.0) - 1.0).astype(u32);
  Tile kept = 0;
  for (int half = 0; half < 2; ++half) {
    Tile two = random_bits(number.shape(), key, number + half, u64, stream);
    for (int word = 0; word < 2; ++word)
      kept = kept | (((two >> (word * 32)).astype(u32) > most).astype(i32) << (2 * half + word));
  }
  Tile row_half = arange(2).reshape({transposed_ ? Shape{1, 1, 1, 1, 2, 1} : Shape{1, 2, 1, 1, 1, 1}}),
       col_half = arange(2).reshape({transposed_ ? Shape{1, 2, 1, 1, 1, 1} : Shape{1, 1, 1, 1, 2, 1}});
  return ((kept >> (row_half * 2 + col_half) & 1) != 0)
      .reshape(transposed_ ? Shape{call_.cols, call_.rows} : Shape{call_.rows, call_.cols});
}
Tile ScoreRule::kept_factor() const {
  Tile left = (1 - *call_.options.dropout).astype(scale.dtype());
  return where(left > 0.0, 1 / left, 0.0);
}
Tile ScoreRule::only_kept(const Tile& values, const std::optional<Tile>& kept) const {
  return kept ? where(*kept, values * kept_factor(), 0) : values;
}

Scores::Scores(const Call& call, const Inputs<Array>& in, const Tile& head, int depth, DType operand)
    : rule(call, head, in, false),
      call_(call),
      query_(call.queries.of(in.query, head).tiled_view({call.rows, depth})),
      key_(call.keys.of(in.key, head / call.group).tiled_view({call.cols, depth})),
      operand_(operand) {}

Tile Scores::greatest(Tile product, const Place& at, bool negative) const {
  const double least = least_number(product.dtype());
  // Without anything to add, a product a row is scaled, not one a score.
  if (rule.plain(at))
    return (negative ? rule.only(product, -least, at).min(1, true)
                     : rule.only(product, least, at).max(1, true)) *
           rule.scale;
  return seen_scores(product, at).max(1, true);
}

Tile Scores::seen_scores(const Tile& product, const Place& at, std::optional<Tile>* slope) const {
  const double hidden =
      to_base_2() ? -std::numeric_limits<double>::infinity() : least_number(product.dtype());
  return rule.only(rule.score(product, at, slope), hidden, at);
}

Tile Scores::exponential(Tile x) const { return to_base_2() ? exp2(x * log2_e) : exp(x); }

Tile Scores::exponentials(Tile product, Tile top, const Place& at, std::optional<Tile>* slope) const {
  // The scores have the product's rounding alone where a fused multiply-add takes off `top`. Masked after
  // exp, which is slow where its results are too small.
  if (rule.plain(at) && to_base_2())
    return rule.only(exp2(fma(product, rule.scale * log2_e, top * -log2_e)), 0.0, at);
  if (to_base_2()) return exponential(seen_scores(product, at, slope) - top);
  Tile s = rule.plain(at) ? fma(product, rule.scale, -top) : rule.score(product, at, slope) - top;
  return rule.only(exp(s), 0.0, at);
}

Range Scores::visible_keys(Tile i) const {
  Tile keys = call_.key_count();
  // With packed samples the grid has as many tiles as the longest sample.
  if (call_.queries.start) keys = where(i < query_.num_tiles(0), keys, 0);
  if (call_.options.all_keys) return range(cdiv(keys, call_.cols));
  Tile high = cdiv(min(max((i + 1) * call_.rows + call_.offset, 0), keys), call_.cols);
  if (!call_.options.first) return range(high);
  return range(min(max(i * call_.rows + *call_.options.first, 0) / call_.cols, high), high);
}

// Returns the number of the first block of rows of a sample's head; 2 * side rows have `side` blocks.
// The rows of packed samples are consecutive; each sample begins with a new tile.
static Tile first_row_block(const Call& call, Tile head) {
  const Options& options = call.options;
  const bool is_packed = call.queries.start.has_value();
  Tile tiles = cdiv(call.query.dim(2), 2 * side), first = 0;
  if (is_packed) {
    tiles += options.query_starts->dim(0) - 1;
    first = call.queries.whole_tile(0, 2 * side);
  } else {
    head += call.batch * call.query.dim(1);
  }
  if (options.heads_before) head += *options.heads_before;
  return (head.astype(u64) * tiles.astype(u64) + first.astype(u64)) * side;
}

}  // namespace tile::attention
