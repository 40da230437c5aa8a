// FlashAttention with user-defined changes of the scores. attend() is the algorithm; each kernel below passes
// it a function of a tile of scores and the indices of its queries and keys. Dao, "FlashAttention-2", 2023.
#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

// scores: [rows, columns] f32; query: [rows, 1], key: [1, columns]. -inf masks a key.
using ScoreChange = std::function<Tile(Tile scores, Tile query, Tile key)>;

struct Sizes {
  int rows, columns, depth;
  DType operand;  // of products
};
// Adds a constant of a user-defined type to the key of compiled kernels.
void key_words(LaunchKey& key, const Sizes& s) {
  for (int word : {s.rows, s.columns, s.depth, static_cast<int>(s.operand)})
    key.add(static_cast<uint64_t>(word));
}

// q, k, v, out: [tokens, depth] of one head. i: the block's tile of queries. last: it ignores keys from this
// one on.
void attend(Array q, Array k, Array v, Array out, Tile scale, Sizes size, Tile i, const Operand& last,
            const ScoreChange& change) {
  const auto [rows, columns, depth, operand] = size;
  View keys = k.tiled_view({columns, depth}), values = v.tiled_view({columns, depth});
  Tile query = q.tiled_view({rows, depth}).load({i, 0}).astype(operand);
  Tile row = (i * rows + arange(rows)).expand_dims(1), stop = min(last, k.dim(0));
  // Powers of 2, which a GPU computes at once. The least number instead of -inf, so that rows without visible
  // keys add 0, not NaN.
  const double log2_e = 1.4426950408889634;
  Tile top = full({rows, 1}, -3e38, f32), total = zeros({rows, 1}, f32), sum = zeros({rows, depth}, f32);
  for (Tile j : range(cdiv(stop, columns))) {
    Tile column = (j * columns + arange(columns)).expand_dims(0);
    Tile scores = mma(query, keys.load({j, 0}).astype(operand).t(), zeros({rows, columns}, f32)) * scale;
    scores = where(column < stop, change(scores, row, column), -inf);
    Tile new_top = max(top, scores.max(1, true) * log2_e);
    Tile shrink = exp2(top - new_top), weights = exp2(fma(scores, log2_e, -new_top));
    total = total * shrink + weights.sum(1, true);
    sum = mma(weights.astype(operand), values.load({j, 0}).astype(operand), sum * shrink);
    top = new_top;
  }
  out.tiled_view({rows, depth}).store({i, 0}, where(total > 0.0, sum / total, 0.0));
}

// Tokens are the cells of a picture, row by row. Scores are smoothly capped at +-cap, and a learned bias for
// each distance in y and x is added, bias[head, dy + height - 1, dx + width - 1].
void picture_kernel(Array q, Array k, Array v, Array bias, Array out, Tile scale, Tile cap, Sizes size) {
  Tile batch = bid(2), head = bid(1), height = (bias.dim(1) + 1) / 2, width = (bias.dim(2) + 1) / 2;
  attend(q[{batch, head}], k[{batch, head}], v[{batch, head}], out[{batch, head}], scale, size, bid(0), k.dim(2),
         [&](Tile scores, Tile i, Tile j) {
           Tile dy = i / width - j / width + height - 1, dx = i % width - j % width + width - 1;
           return cap * tanh(scores / cap) + gather(bias, {head, dy, dx}).astype(f32);
         });
}
Kernel picture("picture_attention", picture_kernel);

// For text: causal, with a slope for each head by which scores decrease with the distance of the key (ALiBi).
void slope_kernel(Array q, Array k, Array v, Array slope, Array out, Tile scale, Sizes size) {
  Tile batch = bid(2), head = bid(1), fall = slope[{head}].tiled_view(Shape{}).load({}).astype(f32);
  Tile tile = num_blocks(0) - 1 - bid(0);  // the longest blocks begin first
  attend(q[{batch, head}], k[{batch, head}], v[{batch, head}], out[{batch, head}], scale, size, tile,
         (tile + 1) * size.rows, [&](Tile scores, Tile i, Tile j) {
           return where(j <= i, scores + fall * (j - i).astype(f32), -inf);
         });
}
Kernel slopes("slope_attention", slope_kernel);

at::Tensor result(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (q.dim() != 4 || !q.sym_sizes().equals(k.sym_sizes()) || !q.sym_sizes().equals(v.sym_sizes()) ||
      q.sym_size(3) > 128)
    fail(ErrorKind::value, "q, k and v are ", q.sym_sizes(), ", ", k.sym_sizes(), " and ", v.sym_sizes(),
         "; pass one shape [batch, heads, tokens, depth], depth up to 128");
  if (q.scalar_type() == at::kDouble)
    fail(ErrorKind::type, "q is float64; pass float32, float16 or bfloat16");
  return at::empty_like(q);
}

// A CPU multiplies in f32 anyway; a GPU's tensor cores take 16-bit floats, and the warpgroup instructions of
// sm_90 larger tiles, but beside products they gather nothing.
Sizes sizes(const at::Tensor& q, bool gathers) {
  const int depth = q.size(3) <= 64 ? 64 : 128;
  if (q.is_cpu()) return {128, 128, depth, f32};
  if (q.scalar_type() == at::kFloat) return {32, 32, depth, f32};
  const int side = multiplies_by_groups(to_array_argument(q)) && !gathers ? 128 : 64;
  return {side, side, depth, to_dtype(q.scalar_type())};
}
Grid grid(const at::Tensor& q, const Sizes& of) { return {ceil_div(q.size(2), of.rows), q.size(1), q.size(0)}; }

const auto picture_attention =
    op("kernels::picture_attention(Tensor q, Tensor k, Tensor v, Tensor bias, float scale, float cap) -> "
       "Tensor out")
        .outputs([](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                    double, double cap) {
          at::Tensor out = result(q, k, v);
          const auto cells = [&](int axis) { return (bias.sym_size(axis) + 1) / 2; };
          if (bias.dim() != 3 || bias.sym_size(0) != q.sym_size(1) || cells(1) * cells(2) != q.sym_size(2))
            fail(ErrorKind::value, "bias is ", bias.sym_sizes(),
                 "; pass [heads, 2 height - 1, 2 width - 1], tokens = height width");
          if (!(cap > 0)) fail(ErrorKind::value, "cap is ", cap, "; pass a positive number");
          return out;
        })
        .run([](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                double scale, double cap, at::Tensor& out) {
          const Sizes of = sizes(q, true);
          picture.launch(grid(q, of), q, k, v, bias, out, static_cast<float>(scale), static_cast<float>(cap), of);
        });

const auto slope_attention =
    op("kernels::slope_attention(Tensor q, Tensor k, Tensor v, Tensor slope, float scale) -> Tensor out")
        .outputs([](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& slope,
                    double) {
          at::Tensor out = result(q, k, v);
          if (slope.dim() != 1 || slope.sym_size(0) != q.sym_size(1))
            fail(ErrorKind::value, "slope is ", slope.sym_sizes(), "; pass a number for each head");
          return out;
        })
        .run([](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& slope,
                double scale, at::Tensor& out) {
          const Sizes of = sizes(q, false);
          slopes.launch(grid(q, of), q, k, v, slope, out, static_cast<float>(scale), of);
        });

}  // namespace
