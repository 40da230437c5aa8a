// Kernels of attention, forward and backward, and what they share: the scores of a tile of queries and keys.
//
// Arrays are [batch, heads, length, depth]; a tile is rows queries by cols keys. Query r attends to the keys
// up to r + offset, so that one kernel serves both causal alignments and, with a large offset, no mask at
// all. `operand` is the dtype of what the products multiply: the arrays' own, or that of sums, which rounds
// nothing.
#pragma once
#include <optional>

#include "tile.h"

namespace tile::attention {

// Sums of 16-bit floats are made in f32.
inline DType sum_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

double least_number(DType dtype);
inline constexpr double log2_e = 1.4426950408889634;

// Which scores of a tile are seen: those of keys that there are, up to the query's own plus an offset, and
// where a mask is true.
struct Seen {
  Tile offset, keys;
  int rows, cols;
  bool turned = false;  // a row of the tile is a key
  std::optional<View> mask = std::nullopt;
  // `values` where seen, else `hidden`.
  Tile only(Tile values, double hidden, Tile i, Tile j) const;
};

// The scores of one head of queries.
class Scores {
 public:
  Scores(Array query, Array key, const std::optional<Array>& bias, Tile batch, Tile head, Tile group,
         Tile scale, Tile offset, int rows, int cols, int depth, DType operand);

  Tile query(Tile i) const { return query_.load({i, 0}).astype(operand_); }
  Tile key(Tile j) const { return key_.load({j, 0}).astype(operand_); }
  // q k^T, and from it each row's greatest score, [rows, 1], and exp(score - top). Passes keep the masks out
  // of tiles that see all keys. negative: scale is.
  Tile product(Tile q, Tile k) const {
    return mma(q, k.t(), zeros({seen_.rows, seen_.cols}, scale_.dtype()));
  }
  Tile greatest(Tile product, Tile i, Tile j, bool negative) const;
  Tile exponentials(Tile product, Tile top, Tile i, Tile j) const;
  Tile exponential(Tile x) const;

  // The key tiles of which any query of tile i sees something, and the query tiles that see something of tile
  // j.
  Range visible_keys(Tile i) const {
    return range(cdiv(min(max((i + 1) * seen_.rows + seen_.offset, 0), seen_.keys), seen_.cols));
  }
  Range seeing_rows(Tile j) const {
    return range(max(j * seen_.cols - seen_.offset, 0) / seen_.rows, query_.num_tiles(0));
  }

 private:
  // To base 2, whose factor joins the scale: what that rounds is far below the rounding of 16-bit operands.
  bool to_base_2() const { return info(operand_).bits == 16; }
  Tile added(Tile i, Tile j) const;  // the bias

  View query_, key_;
  Tile scale_;
  Seen seen_;
  std::optional<View> bias_;  // numbers; a mask is in seen_
  DType operand_;
};

// negative: scale is. top and weight, [batch, heads, query]: the probabilities are exp(score - top) * weight,
// which loses less than exp(score - lse) where scores are large. residual: what rounding took from out.
void forward(Array query, Array key, Array value, std::optional<Array> bias, Array out, Array lse, Array top,
             Array weight, std::optional<Array> residual, Tile scale, Tile offset, Tile group, int rows,
             int cols, int depth, DType operand, bool negative);

// sum(grad_out * (out + residual)) - grad_lse of the rows of tile i, [rows]: what a row's gradients of scores
// have in common.
Tile row_deltas(const std::optional<Array>& grad_out, const Array& out, const std::optional<Array>& residual,
                const std::optional<Array>& grad_lse, Tile batch, Tile head, Tile i, int rows, int depth,
                DType dtype);
// delta: those.
void backward_delta(std::optional<Array> grad_out, Array out, std::optional<Array> residual,
                    std::optional<Array> grad_lse, Array delta, int rows, int depth);

// A block has `span` tiles of keys of one key head and adds up over all queries of its group. With grad_query
// it has every key of the head (span reaches them all) and so adds up that gradient too: in `partial`, or in
// place where grad_query has the dtype of sums.
void backward_keys(Array query, Array key, Array value, std::optional<Array> bias,
                   std::optional<Array> grad_out, Array top, Array weight, Array delta,
                   std::optional<Array> grad_key, std::optional<Array> grad_value,
                   std::optional<Array> grad_query, std::optional<Array> partial, Tile scale, Tile offset,
                   Tile group, Tile span, int rows, int cols, int depth, DType operand);

void backward_query(Array query, Array key, Array value, std::optional<Array> bias,
                    std::optional<Array> grad_out, Array top, Array weight, Array delta, Array grad_query,
                    Tile scale, Tile offset, Tile group, int rows, int cols, int depth, DType operand);

// The same by tensor cores. First, of each row: exp2(score * log2 e + shift) are its probabilities, and delta
// the sum of backward_delta times -scale; both arrays reach over the whole of the last tile.
void backward_rows(std::optional<Array> grad_out, Array out, std::optional<Array> residual,
                   std::optional<Array> grad_lse, Array top, Array weight, Array shift, Array delta,
                   Tile scale, int rows, int depth);
// A block has a tile of keys. With sums, float32 zeros [batch, heads, row tiles, rows * depth], it adds its
// part of the gradient of query there, in no fixed order; they are rounded afterwards.
void backward_turned(Array query, Array key, Array value, std::optional<Array> bias,
                     std::optional<Array> grad_out, Array shift, Array delta, std::optional<Array> grad_key,
                     std::optional<Array> grad_value, std::optional<Array> sums, Tile scale, Tile offset,
                     Tile group, int rows, int cols, int depth);
void backward_rounded(Array sums, Array grad_query, int rows, int depth);

// The bias's gradient, summed over the axes where grad_bias has extent 1.
void backward_bias(Array query, Array key, Array value, Array bias, std::optional<Array> grad_out, Array top,
                   Array weight, Array delta, Array grad_bias, Tile scale, Tile offset, Tile group, int rows,
                   int cols, int depth, DType operand);

// The same where the bias is one number a row: a row's gradients of scores add up to that of its lse.
void backward_row_bias(std::optional<Array> grad_lse, Array weight, Array grad_bias, int rows);

}  // namespace tile::attention
