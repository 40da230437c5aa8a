// Kernels of attention, forward and backward, and what they share: the scores of a tile of queries and keys.
//
// Arrays are [batch, heads, length, depth]; a tile is rows queries by cols keys. Query r attends to the keys
// up to r + offset, so that one kernel serves both causal alignments and, with a large offset, no mask at
// all. `operand` is the dtype of what the products multiply: the arrays' own, or that of sums, which rounds
// nothing.
#pragma once
#include "score_text.h"

namespace tile::attention {

// Sums of 16-bit floats are made in f32.
inline DType sum_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

double least_number(DType dtype);
inline constexpr double log2_e = 1.4426950408889634;

// Queries, keys and head dim of a tile.
struct TileSize {
  int rows, cols, depth;
};

// A mask summed up. A flag says of as many rows and columns of a mask whether none, some or all of their
// scores are seen; of a floating mask, all with nothing added, or some with numbers added. As bits, 128
// columns of a row are four words: the thread that holds columns 2 q and 2 q + 1 of every 8 in the sums of a
// product finds its own in word q.
inline constexpr int flag_side = 32, flag_none = 0, flag_some = 1, flag_all = 2, flag_numbers = 3;
inline constexpr int words_a_row = 4, word_bits = 32, word_columns = words_a_row * word_bits;
// The rows and columns of the mask that a block of the grid reads at once, and the flags along a list.
inline constexpr int cpu_mask_rows = flag_side, gpu_mask_rows = 64, mask_cols_read = word_columns,
                     flags_read = 256;
// A list begins with how many tiles get numbers added, how many these and the ones that are seen in part are,
// and how many are seen at all; the tiles follow in this order.
inline constexpr int list_head = 3;
// The tiles of keys that a tile of queries visits, or of queries that a tile of keys visits. What options
// hide is not among what is seen.
template <class Array>
struct Visits {
  Array list;                 // [batch, heads, tiles, list_head + tiles of the other axis]
  std::optional<Array> bits;  // [batch, heads, rows, words] of the mask, its rows are those of scores
};

// Operands. Structs of parameters hold arrays and tiles in a kernel, tensors and numbers on the host.
template <class Array>
struct Inputs {
  Array query, key, value;
  std::optional<Array> bias;                           // [batch or 1, heads or 1, query, key]
  std::optional<Visits<Array>> visits = std::nullopt;  // without them, all that options leave
};

// Options of a call besides a scale, a bias and a last key. Missing ones cost nothing.
template <class Array, class Integer, class Number>
struct OptionsOf {
  std::optional<Integer> first;         // query r attends to no key before r + first
  std::optional<Number> softcap;        // of scores: softcap * tanh(score / softcap), before what is added
  std::optional<Array> slopes;          // [batch, heads], ALiBi: slope * |r + diagonal - key| is taken off
  std::optional<Integer> diagonal;      // there with slopes
  std::optional<Array> seed;            // [2], there with dropout
  std::optional<Number> dropout;        // the fraction of probabilities that become 0
  std::optional<Integer> heads_before;  // of samples' heads, in earlier launches: dropout counts them
  std::optional<Array> sinks;           // [heads]: a score more in each row, of a key without a value
  // [batch + 1]: packed samples of different lengths, in arrays [1, heads, all, depth].
  std::optional<Array> query_starts, key_starts;
  // Applied to each score after the scale.
  std::optional<ScoreTextOf<Array, Integer>> text;
  bool all_keys = false;    // every query attends to every key: no offset is needed
  bool whole_keys = false;  // no tile of keys reaches beyond the last key
  bool skips = false;       // blocks whose tile lies past the end of a packed sample do nothing
  bool from_last = false;   // of these, offset, first and diagonal count from the last query and key
};
using Options = OptionsOf<Array, Tile, Tile>;

// A launch may process `count` of the `group` query heads of each key head, from `first` on.
template <class Integer>
struct Members {
  Integer group, first, count;
};

// How queries see and score keys.
template <class Array, class Integer, class Number>
struct RuleOf {
  Number scale;
  Integer offset, group;  // group: query heads that share a key head
  std::optional<Members<Integer>> members;
  OptionsOf<Array, Integer, Number> options;
};
using Rule = RuleOf<Array, Tile, Tile>;

// A block's tile of rows and how many there are, its head and sample. On a GPU the grid's first axis counts
// heads: blocks of all heads that have the most to do begin first. On a CPU it counts tiles: a head's follow
// each other, and find its keys in the cache.
struct BlockIndex {
  explicit BlockIndex(bool heads_first)
      : tile(bid(heads_first ? 1 : 0)),
        tiles(num_blocks(heads_first ? 1 : 0)),
        head(bid(heads_first ? 0 : 1)),
        batch(bid(2)) {}
  Tile tile, tiles, head, batch;
};

// One sample's part of arrays.
class Sample {
 public:
  Sample(const std::optional<Array>& starts, const Tile& batch);
  Array of(const Array& array, const Operand& head) const {
    return start ? array[{0, head}].slice(0, max(*start, 0), *stop) : array[{batch_, head}];
  }
  // Arrays [batch, heads, ...] of whole tiles. Those of packed samples follow each other in [1, heads, ...]:
  // sample b begins at tile start / rows + b, behind what a sample before it takes.
  Array of_whole_tiles(const Array& array, const Operand& head) const {
    return start ? array[{0, head}] : array[{batch_, head}];
  }
  Array of_whole_tile(const Array& array, const Operand& head, const Tile& i, int rows) const {
    return start ? array[{0, head, whole_tile(i, rows)}] : array[{batch_, head, i}];
  }
  Tile whole_tile(const Tile& i, int rows) const { return start ? max(*start, 0) / rows + batch_ + i : i; }
  // The same; -1 past the last tile of a packed sample, where no tile is.
  Tile own_whole_tile(const Tile& i, int rows) const {
    return start ? where(i * rows < length(), whole_tile(i, rows), -1) : i;
  }
  Tile length() const { return *stop - *start; }  // of a packed sample
  std::optional<Tile> start, stop;                // in packed arrays

 private:
  Tile batch_;
};

// The parameters of a call's kernels; offsets are the sample's own.
struct Call {
  Call(const Inputs<Array>& in, const Tile& batch, const Rule& rule, const TileSize& tile);
  Array query, key;
  Tile batch, scale, offset, group;
  int rows, cols;
  Options options;
  Sample queries, keys;

  Tile key_count() const { return keys.start ? keys.of(key, 0).dim(0) : key.dim(2); }
  // The query tiles that see something of key tile j.
  Range seeing_rows(const Tile& j, const Tile& row_tiles) const;
};

// A tile of scores. whole: it is known to see all of them, so that nothing hides any or adds to them. adds: a
// bias may have other numbers than 0 and -inf there. bias: its tile, if it is loaded already.
struct Place {
  Tile i, j;
  std::optional<Tile> whole = std::nullopt;
  bool adds = true;
  std::optional<Tile> bias = std::nullopt;
};
// The tiles that a list names, of a tile of queries or, by_keys, of keys.
class Visited {
 public:
  Visited(const Inputs<Array>& in, const Tile& head, const Tile& batch, const Tile& own, bool by_keys);
  // Calls add(place) in loops over the tiles. The loop of those that read a bias is one of its own, so that
  // others hold nothing of it in registers.
  template <class Add>
  void each(const Add& add) const {
    if (biased_)
      for (Tile at : range(*biased_)) add(place(at, std::nullopt, true));
    for (Tile at : biased_ ? range(*biased_, count_) : range(count_))
      add(place(at, only_whole_ ? Tile(true) : at >= partly_, !biased_));
  }

 private:
  Tile number(const Operand& at) const { return list_[{at}].tiled_view(Shape{}).load({}); }
  Place place(const Tile& at, const std::optional<Tile>& whole, bool adds) const {
    const Tile other = number(at + list_head);
    return by_keys_ ? Place{other, own_, whole, adds} : Place{own_, other, whole, adds};
  }
  Array list_;
  Tile own_;
  bool by_keys_, only_whole_;
  Tile partly_, count_;
  std::optional<Tile> biased_;  // how many tiles read a floating bias
};

// One read of an operand adds this to its gradient. indices: the element that was read of a table, else
// empty. All tiles have the shape of the scores.
struct OperandGradient {
  size_t wanted;  // a number in the list of those
  Tile gradient;
  std::vector<Tile> indices = {};
};

// Decides which scores of a tile are seen, and computes scores from products. transposed: the tile's rows are
// keys.
class ScoreRule {
 public:
  ScoreRule(const Call& call, const Tile& head, const Inputs<Array>& in, bool transposed);

  // Returns true if a score is a product times the scale.
  bool plain(const Place& at) const { return !(bias_ && at.adds) && !slope_ && !cap_ && !call_.options.text; }
  // `values` where a score is seen, else `hidden`.
  Tile only(Tile values, double hidden, const Place& at) const;
  // The bias, -inf where a score is not seen.
  Tile seen_bias(const Place& at) const;
  // The scores; with a cap or a text `slope` becomes their derivatives by the scaled products.
  Tile score(const Tile& product, const Place& at, std::optional<Tile>* slope = nullptr) const;
  // Returns what the gradients of scores add to those of some operands of the text.
  std::vector<OperandGradient> operand_gradients(const Tile& product, const Tile& grad_score, const Place& at,
                                                 const std::vector<int>& wanted) const;
  // kept() returns the probabilities that dropout leaves, or nothing without it, and kept_factor() what they
  // are multiplied by; only_kept() returns values times it where they are left, else 0.
  std::optional<Tile> kept(const Tile& i, const Tile& j) const;
  Tile kept_factor() const;
  Tile only_kept(const Tile& values, const std::optional<Tile>& kept) const;

  Tile scale;

 private:
  Tile row(const Tile& i) const;
  Tile col(const Tile& j) const;
  Tile of_text(const Tile& score, const Place& at, std::optional<Tile>* slope) const;
  Tile text(const Tile& score, const Place& at, const std::vector<int>& wanted = {},
            std::vector<OperandGradient>* reads = nullptr) const;
  // Indices that count from the end, as torch's negative ones, become others.
  Tile element(const Array& table, std::vector<Tile>& indices, const Place& at) const;
  Tile load(const View& view, const Place& at) const {
    return transposed_ ? view.load({at.j, at.i}) : view.load({at.i, at.j});
  }
  Tile seen_by_bits(const Place& at) const;

  Call call_;
  Tile head_, key_count_;
  bool transposed_;
  std::optional<View> bias_, mask_, bits_;
  std::optional<Tile> slope_, cap_;
};

// The scores of one head of queries.
class Scores {
 public:
  Scores(const Call& call, const Inputs<Array>& in, const Tile& head, int depth, DType operand);

  Tile query(Tile i) const { return query_.load({i, 0}).astype(operand_); }
  Tile key(Tile j) const { return key_.load({j, 0}).astype(operand_); }
  // q k^T, and from it each row's greatest score, [rows, 1], and exp(score - top). Passes keep the masks out
  // of tiles that see all keys. negative: scale is. slope: as ScoreRule::score's.
  Tile product(Tile q, Tile k) const {
    return mma(q, k.t(), zeros({call_.rows, call_.cols}, rule.scale.dtype()));
  }
  Tile greatest(Tile product, const Place& at, bool negative) const;
  Tile exponentials(Tile product, Tile top, const Place& at, std::optional<Tile>* slope = nullptr) const;
  Tile exponential(Tile x) const;
  // The scores, and where they are not seen -inf, whose exponential needs no mask, or the least number where
  // exponentials are masked.
  Tile seen_scores(const Tile& product, const Place& at, std::optional<Tile>* slope = nullptr) const;

  // The key tiles of which any query of tile i sees something, and the query tiles that see something of tile
  // j, where no list names them.
  Range visible_keys(Tile i) const;
  Range seeing_rows(Tile j) const { return call_.seeing_rows(j, query_.num_tiles(0)); }

  ScoreRule rule;

 private:
  // To base 2, whose factor joins the scale: what that rounds is far below the rounding of 16-bit operands.
  bool to_base_2() const { return info(operand_).bits == 16; }

  Call call_;
  View query_, key_;
  DType operand_;
};

template <class Array, class Tile>
struct Forward {
  Inputs<Array> in;
  Array out, lse;
  // [batch, heads, query]: the probabilities are exp(score - top) * weight, which loses less than exp(score -
  // lse) where scores are large.
  Array top, weight;
  std::optional<Array> residual;  // what rounding took from out
  RuleOf<Array, Tile, Tile> rule;
  TileSize tile;
  DType operand;
  bool heads_first;
  bool negative;  // scale is
};
void forward(const Forward<Array, Tile>& of);

// Inputs of the delta of each row, which its gradients of scores share: sum(grad_out * (out + residual)) -
// grad_lse.
template <class Array>
struct RowGradients {
  std::optional<Array> grad_out;
  Array out;
  std::optional<Array> residual, grad_lse;
};
// The deltas of the rows of tile i, [rows].
Tile row_deltas(const RowGradients<Array>& of, const Sample& sample, Tile head, Tile i, int rows, int depth,
                DType dtype);
// Stores the deltas of all rows to delta.
void backward_delta(const RowGradients<Array>& of, Array delta, const Options& options, int rows, int depth);

// Inputs of the gradients of scores.
template <class Array>
struct Incoming {
  Inputs<Array> in;
  std::optional<Array> grad_out;
  Array top, weight, delta;  // of the forward; of backward_delta
};

// A block has `span` tiles of keys of one key head and adds up over all queries of its group. With grad_query
// it has every key of the head (span reaches them all) and so adds up that gradient too.
template <class Array, class Tile>
struct BackwardKeys {
  Incoming<Array> from;
  std::optional<Array> grad_key, grad_value, grad_query;
  // If grad_query has not the dtype of sums, a block adds it up in its part of these, [blocks, group,
  // rows, depth].
  std::optional<Array> partial;
  RuleOf<Array, Tile, Tile> rule;
  Tile span;
  // There with partial: blocks then count along one axis of the grid; these are samples' key heads of
  // earlier launches.
  std::optional<Tile> first;
  TileSize tile;
  DType operand;
  bool heads_first;
};
void backward_keys(const BackwardKeys<Array, Tile>& of);

template <class Array, class Tile>
struct BackwardQuery {
  Incoming<Array> from;
  Array grad_query;
  RuleOf<Array, Tile, Tile> rule;
  TileSize tile;
  DType operand;
  bool heads_first;
};
void backward_query(const BackwardQuery<Array, Tile>& of);

// The same by tensor cores, in launches that may have some query heads of each key head only. shift, delta
// and sums hold a launch's own heads, the others are of all.
template <class Array, class Tile>
struct BackwardRows {
  RowGradients<Array> of;
  Array top, weight;
  // Rows of whole tiles: exp2(score * log2 e + shift) are a row's probabilities, and delta is the sum of
  // backward_delta times -scale.
  Array shift, delta;
  std::optional<Array> sums;  // of the gradient of query, which are set to 0
  Tile scale;
  std::optional<Members<Tile>> members;
  OptionsOf<Array, Tile, Tile> options;
  int rows, depth;
};
void backward_rows(const BackwardRows<Array, Tile>& of);
// A block has a tile of keys.
template <class Array, class Tile>
struct BackwardTransposed {
  Inputs<Array> in;
  std::optional<Array> grad_out;
  Array shift, delta;
  std::optional<Array> grad_key, grad_value;
  // float32 zeros [batch, heads, row tiles, rows * depth], of packed samples as Sample counts tiles: a block
  // adds its part of the gradient of query there, in no fixed order; they are rounded afterwards.
  std::optional<Array> sums;
  RuleOf<Array, Tile, Tile> rule;
  bool more;  // the gradients of key and value are added to what an earlier launch stored
  TileSize tile;
};
void backward_transposed(const BackwardTransposed<Array, Tile>& of);
void backward_rounded(Array sums, Array grad_query, std::optional<Members<Tile>> members,
                      const Options& options, int rows, int depth);

// A summary of a mask [batch, heads, query, key], bool or floating: flags [batch, heads, query / 32, key /
// 32], and bits [batch, heads, query, words], or by_keys [batch, heads, key, words].
template <class Array, class Tile>
struct MaskFlags {
  Array mask, flags;
  std::optional<Array> bits;
  Tile offset;  // as in rules, whose masks are summed up too
  std::optional<Tile> first;
  bool by_keys;
  int rows;  // that a block reads
};
void mask_flags(const MaskFlags<Array, Tile>& of);
// The lists of tiles. A tile has so many flags along the axis of the lists, and along that of the tiles that
// they name: by_keys a list is of a tile of keys.
template <class Array>
struct MaskLists {
  Array flags, list;
  int rows, cols;
  bool by_keys, adds;  // adds: the mask is floating
};
void mask_lists(const MaskLists<Array>& of);

// The bias's gradient, summed over the axes where grad_bias has extent 1.
template <class Array, class Tile>
struct BackwardBias {
  Incoming<Array> from;
  Array grad_bias;
  RuleOf<Array, Tile, Tile> rule;
  TileSize tile;
  DType operand;
};
void backward_bias(const BackwardBias<Array, Tile>& of);

// The same by tensor cores for a bias of every row and key. A block has a tile of queries and up to `span`
// tiles of keys.
template <class Array, class Tile>
struct BackwardBiasTiles {
  Inputs<Array> in;
  std::optional<Array> grad_out;
  Array shift, delta;  // as of BackwardRows, of a scale of 1
  Array grad_bias;
  RuleOf<Array, Tile, Tile> rule;
  Tile span;
  TileSize tile;
};
void backward_bias_tiles(const BackwardBiasTiles<Array, Tile>& of);

// The same where the bias is one number a row and there are no sinks: a row's gradients of scores add up to
// that of its lse.
void backward_row_bias(std::optional<Array> grad_lse, Array weight, Array grad_bias, int rows);

// The gradients of operands of a text. A block adds up over the keys that a tile of queries sees, over the
// queries that see a tile of keys, or over the samples and heads that share an operand.
enum class AddsUp : int { keys, queries, heads };
template <class Array, class Tile>
struct BackwardOperands {
  Incoming<Array> from;
  // Sums, where keys are added up: [batch, heads, query, 1], or some copies of a table, which begin as 0.
  // Over queries: [batch, heads, 1, key]. Over heads: [batch or 1, heads or 1, query, key].
  std::vector<Array> sums;
  std::vector<int> operands;
  RuleOf<Array, Tile, Tile> rule;
  // The number of tiles: there if each block has its own copy of tables, and takes more than one tile.
  std::optional<Tile> tiles;
  AddsUp over;
  TileSize tile;
  DType operand;
  bool heads_first;
};
void backward_operands(const BackwardOperands<Array, Tile>& of);

// The sinks' gradient; a block has a head.
void backward_sinks(Array sinks, Array top, Array weight, Array delta, Array grad_sinks, int rows);

}  // namespace tile::attention
