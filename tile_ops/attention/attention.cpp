// Attention and its gradient as operators: what they accept, what they allocate, which kernels run.
#include <cmath>

#include "kernels.h"
#include "tile/op.h"

namespace tile::attention {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Kernel forward_kernel("attention_forward", forward);
Kernel delta_kernel("attention_backward_delta", backward_delta);
Kernel keys_kernel("attention_backward_keys", backward_keys);
Kernel query_kernel("attention_backward_query", backward_query);
Kernel rows_kernel("attention_backward_rows", backward_rows);
Kernel turned_kernel("attention_backward_turned", backward_turned);
Kernel rounded_kernel("attention_backward_rounded", backward_rounded);
Kernel bias_kernel("attention_backward_bias", backward_bias);
Kernel row_bias_kernel("attention_backward_row_bias", backward_row_bias);

constexpr int64_t most_depth = 256;

// Queries, keys and head dim of a tile. Few values, because each is another kernel; 64 is a bucket of its
// own, because tiles without padding are faster.
struct TileSize {
  int rows, cols, depth;
};
bool is_small(const Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}
// Tensor cores multiply heads of the usual sizes without padding.
int gpu_depth(const Tensor& query, int64_t depth) {
  if (!is_small(query)) return depth <= 64 ? 64 : depth <= 128 ? 128 : 256;
  for (int usual : {64, 80, 96, 128, 192})
    if (depth <= usual) return usual;
  return 256;
}
// On a GPU two operands of a product stand in shared memory, and scores and sums in registers.
TileSize gpu_tile_size(const Tensor& query, int64_t depth, bool forward, bool bias) {
  const int extent = gpu_depth(query, depth);
  const bool small = is_small(query);
  if (query.scalar_type() == at::kDouble) {
    const int64_t needed = 12 * 32 * extent * 8;  // what 32 rows took at most, of several products
    const int side = most_shared_bytes(to_array_argument(query)) < needed ? 16 : 32;
    return {side, side, extent};
  }
  if (extent > 128) return {32, 32, extent};
  // Sums are scaled and warps wait once a tile of keys, so these are as long as scores fit beside the sums.
  if (small && forward) return {128, extent > 64 && bias ? 32 : 64, extent};
  return {64, small && extent > 64 ? 32 : 64, extent};
}
TileSize tile_size(const Tensor& query, int64_t depth, int64_t least, bool forward, bool bias) {
  if (!query.is_cpu()) return gpu_tile_size(query, depth, forward, bias);
  return {128, 128, depth <= 64 && least <= 64 ? 64 : depth <= 128 && least <= 128 ? 128 : 256};
}
// On a CPU products of 16-bit floats run in f32 anyway, and rounding operands to 16 bits would only lose.
DType operand_dtype(const Tensor& query) {
  const DType dtype = to_dtype(query.scalar_type());
  return query.is_cpu() ? sum_dtype(dtype) : dtype;
}
// With this many key heads, one pass that keeps a head's gradients to one block is busy enough, and saves two
// of seven products. A fixed number: results do not depend on the machine.
constexpr int64_t enough_heads = 8;

void check_tensor(const Tensor& tensor, const char* name) {
  if (tensor.dim() != 4)
    fail(ErrorKind::value, "'", name, "' has shape ", tensor.sym_sizes(),
         "; give it 4 dimensions, [batch, heads, length, head_dim]");
  const at::ScalarType type = tensor.scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kHalf && type != at::kBFloat16)
    fail(ErrorKind::type, "'", name, "' is ", c10::toString(type),
         "; convert it to Half, BFloat16, Float or Double");
}

void check_inputs(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& bias,
                  const std::string& causal_align) {
  check_tensor(query, "query");
  check_tensor(key, "key");
  check_tensor(value, "value");
  if (key.scalar_type() != query.scalar_type() || value.scalar_type() != query.scalar_type())
    fail(ErrorKind::type, "'query' is ", c10::toString(query.scalar_type()), ", 'key' ",
         c10::toString(key.scalar_type()), " and 'value' ", c10::toString(value.scalar_type()),
         "; convert them to one dtype");
  if (key.sym_size(0) != value.sym_size(0) || key.sym_size(1) != value.sym_size(1) ||
      key.sym_size(2) != value.sym_size(2))
    fail(ErrorKind::value, "'key' is ", key.sym_sizes(), " but 'value' ", value.sym_sizes(),
         "; their batch, heads and length must be equal");
  if (query.sym_size(0) != key.sym_size(0) || query.sym_size(3) != key.sym_size(3))
    fail(ErrorKind::value, "'query' is ", query.sym_sizes(), " but 'key' ", key.sym_sizes(),
         "; their batch and head_dim must be equal");
  const c10::SymInt heads = query.sym_size(1), key_heads = key.sym_size(1);
  if (key_heads == 0 ? heads != 0 : heads % key_heads != 0)
    fail(ErrorKind::value, "'query' has ", heads, " heads but 'key' ", key_heads,
         "; the heads of query must be a multiple of those of key");
  for (const c10::SymInt& depth : {query.sym_size(3), value.sym_size(3)})
    if (depth > most_depth)
      fail(ErrorKind::unsupported, "head_dim is ", depth, " and the most is ", most_depth,
           "; split it over more heads");
  if (causal_align != "bottom_right" && causal_align != "top_left")
    fail(ErrorKind::value, "causal_align is '", causal_align, "'; give 'bottom_right' or 'top_left'");
  if (!bias) return;
  if (bias->scalar_type() != at::kBool && !at::isFloatingType(bias->scalar_type()))
    fail(ErrorKind::type, "'attn_bias' is ", c10::toString(bias->scalar_type()),
         "; give a bool mask (True attends) or floats to add to the scores");
  const c10::SymInt scores[] = {query.sym_size(0), heads, query.sym_size(2), key.sym_size(2)};
  bool fits = bias->dim() <= 4;
  for (int64_t i = 1; fits && i <= bias->dim(); ++i)
    fits = bias->sym_size(-i) == 1 || bias->sym_size(-i) == scores[4 - i];
  if (!fits)
    fail(ErrorKind::value, "'attn_bias' is ", bias->sym_sizes(), ", which does not broadcast to the scores, ",
         c10::SymIntArrayRef(scores, 4), "; every dimension must be equal or 1");
}

// Dense, its dimensions in memory as those of `like` are.
Tensor empty_in_order(const Tensor& like, const std::vector<c10::SymInt>& sizes) {
  const int rank = static_cast<int>(sizes.size());
  const auto strides = like.sym_strides();
  std::vector<int> order(sizes.size());  // outermost first
  for (int i = 0; i < rank; ++i) {
    int place = i;
    for (int k = i; k-- > 0;) {
      const c10::SymInt &outer = strides[order[k]], &inner = strides[i];
      if (outer == 0 || inner == 0) continue;  // expanded: it does not say
      if (outer >= inner) break;
      place = k;
    }
    std::copy_backward(order.begin() + place, order.begin() + i, order.begin() + i + 1);
    order[place] = i;
  }
  std::vector<c10::SymInt> dense(sizes.size());
  c10::SymInt step = 1;
  for (int k = rank; k-- > 0;) {
    dense[order[k]] = step;
    step = step * sizes[order[k]].max(1);
  }
  return at::empty_strided_symint(sizes, dense, like.options());
}
Tensor empty_in_order(const Tensor& like) { return empty_in_order(like, like.sym_sizes().vec()); }

at::TensorOptions sum_options(const Tensor& query) {
  return query.options().dtype(query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

// What the kernels are told about a call.
struct Problem {
  Problem(const Tensor& query, const Tensor& key, const Tensor& value, bool is_causal,
          const std::string& causal_align, std::optional<double> given)
      : batch(query.size(0)),
        heads(query.size(1)),
        rows(query.size(2)),
        key_heads(key.size(1)),
        keys(key.size(2)),
        depth(std::max(query.size(3), value.size(3))),
        group(static_cast<int>(heads / std::max<int64_t>(key_heads, 1))),
        offset(static_cast<int>(!is_causal                   ? keys
                                : causal_align == "top_left" ? 0
                                                             : keys - rows)),
        scale(given.value_or(1 / std::sqrt(static_cast<double>(query.size(3))))) {}
  int64_t batch, heads, rows, key_heads, keys, depth;
  int group, offset;
  double scale;
};

// [batch, heads, query, key] with stride 0 where it is broadcast.
OptionalTensor whole_bias(const OptionalTensor& bias, const Problem& p) {
  if (!bias) return std::nullopt;
  return bias->expand({p.batch, p.heads, p.rows, p.keys});
}
Tensor four_dimensions(Tensor bias) {
  while (bias.dim() < 4) bias = bias.unsqueeze(0);
  return bias;
}
OptionalTensor if_any(const OptionalTensor& tensor) {
  return tensor && tensor->numel() ? tensor : std::nullopt;
}
OptionalTensor if_defined(const Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

// Saved results that nobody asked for are written all the same, so that there is one kernel; but not the
// large one.
void run_forward(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& bias,
                 bool is_causal, const std::string& causal_align, std::optional<double> scale, Tensor& out,
                 Tensor& lse, const OptionalTensor& top, const OptionalTensor& weight,
                 const OptionalTensor& residual) {
  const Problem p(query, key, value, is_causal, causal_align, scale);
  if (lse.numel() == 0) return;
  const TileSize tile = tile_size(query, p.depth, 64, true, bias.has_value());
  forward_kernel.launch({ceil_div(p.rows, tile.rows), p.heads, p.batch}, query, key, value,
                        whole_bias(bias, p), out, lse, top ? *top : at::empty(lse.sizes(), lse.options()),
                        weight ? *weight : at::empty(lse.sizes(), lse.options()), if_any(residual), p.scale,
                        p.offset, p.group, tile.rows, tile.cols, tile.depth, operand_dtype(query),
                        p.scale < 0);
}

// Rows of whole 16 bytes: these are copied to shared memory past the registers.
bool in_chunks(const Tensor& x) {
  constexpr int chunk = 8;
  return x.stride(3) == 1 && x.size(3) % chunk == 0 && x.stride(0) % chunk == 0 && x.stride(1) % chunk == 0 &&
         x.stride(2) % chunk == 0;
}
// One pass over large tiles. Of a deep head, what is not in chunks would fill registers: the smaller tiles of
// two passes are left for it.
bool takes_turned(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& grad_out,
                  const Problem& p) {
  if (!is_small(query) || query.is_cpu() || p.depth > 128) return false;
  return p.depth <= 64 ||
         (in_chunks(query) && in_chunks(key) && in_chunks(value) && (!grad_out || in_chunks(*grad_out)));
}
// 32 rows a warp where the gradients' sums leave room for its scores, else 16: see cuda/mma_plan.h.
TileSize turned_tile_size(const Tensor& query, const Problem& p) {
  if (p.depth <= 64) return {32, 128, 64};
  constexpr int needed = 160 * 1024;  // tiles of key and value, two of scores, two each of query and grad_out
  const int depth = gpu_depth(query, p.depth);
  return most_shared_bytes(to_array_argument(query)) >= needed ? TileSize{64, 128, depth}
                                                               : TileSize{32, 64, depth};
}

// The gradients of key and value, and that of query where it may be added up in no fixed order; returns
// whether it was.
bool run_turned(const OptionalTensor& grad_out, const OptionalTensor& grad_lse, const Tensor& query,
                const Tensor& key, const Tensor& value, const Tensor& out, const Tensor& top,
                const Tensor& weight, const Tensor& residual, const OptionalTensor& bias, const Problem& p,
                Tensor& grad_query, Tensor& grad_key, Tensor& grad_value) {
  const TileSize tile = turned_tile_size(query, p);
  const bool adds = grad_query.defined() && !wants_fixed_order();
  const int64_t row_tiles = ceil_div(p.rows, tile.rows), key_tiles = ceil_div(p.keys, tile.cols);
  const OptionalTensor sums =
      adds ? OptionalTensor(
                 at::empty({p.batch, p.heads, row_tiles, tile.rows * tile.depth}, top.options()).zero_())
           : std::nullopt;
  const Tensor shift = at::empty({p.batch, p.heads, row_tiles * tile.rows}, top.options()),
               delta = result_like(shift);
  if (shift.numel())
    rows_kernel.launch({row_tiles, p.heads, p.batch}, grad_out, out, if_any(residual), grad_lse, top, weight,
                       shift, delta, p.scale, tile.rows, tile.depth);
  if (key_tiles)
    turned_kernel.launch({key_tiles, p.key_heads, p.batch}, query, key, value, bias, grad_out, shift, delta,
                         if_defined(grad_key), if_defined(grad_value), sums, p.scale, p.offset, p.group,
                         tile.rows, tile.cols, tile.depth);
  if (adds && shift.numel())
    rounded_kernel.launch({row_tiles, p.heads, p.batch}, *sums, grad_query, tile.rows, tile.depth);
  return adds;
}

void run_backward(const OptionalTensor& grad_out, const OptionalTensor& grad_lse, const Tensor& query,
                  const Tensor& key, const Tensor& value, const Tensor& out, const Tensor& top,
                  const Tensor& weight, const Tensor& residual, const OptionalTensor& bias, bool is_causal,
                  const std::string& causal_align, std::optional<double> scale, const std::array<bool, 4>&,
                  Tensor& grad_query, Tensor& grad_key, Tensor& grad_value, Tensor& grad_bias) {
  const Problem p(query, key, value, is_causal, causal_align, scale);
  const OptionalTensor scores_bias = whole_bias(bias, p);
  const bool for_keys = grad_key.defined() || grad_value.defined();
  const bool one_pass =
      for_keys && grad_query.defined() && query.is_cpu() && p.batch * p.key_heads >= enough_heads;
  const TileSize tile = tile_size(query, p.depth, one_pass ? 64 : 128, false, bias.has_value());
  const int64_t row_tiles = ceil_div(p.rows, tile.rows), key_tiles = ceil_div(p.keys, tile.cols);
  const bool turned = for_keys && takes_turned(query, key, value, grad_out, p);
  const bool for_query =
      !(turned && run_turned(grad_out, grad_lse, query, key, value, out, top, weight, residual, scores_bias,
                             p, grad_query, grad_key, grad_value)) &&
      grad_query.defined() && !one_pass;
  const Tensor delta = at::empty(top.sizes(), top.options());
  if (delta.numel() && (!turned || for_query || grad_bias.defined()))
    delta_kernel.launch({row_tiles, p.heads, p.batch}, grad_out, out, if_any(residual), grad_lse, delta,
                        tile.rows, static_cast<int>(most_depth));

  if (for_keys && !turned && p.batch * p.key_heads > 0) {
    OptionalTensor sums, result;
    if (one_pass) result = grad_query;
    if (one_pass && query.scalar_type() != top.scalar_type()) sums = at::empty(query.sizes(), top.options());
    const int64_t span = one_pass ? key_tiles : 1;
    if (const int64_t blocks = one_pass ? 1 : key_tiles)
      keys_kernel.launch({blocks, p.key_heads, p.batch}, query, key, value, scores_bias, grad_out, top,
                         weight, delta, if_defined(grad_key), if_defined(grad_value), result, sums, p.scale,
                         p.offset, p.group, static_cast<int>(span), tile.rows, tile.cols, tile.depth,
                         operand_dtype(query));
  }
  if (for_query && delta.numel())
    query_kernel.launch({row_tiles, p.heads, p.batch}, query, key, value, scores_bias, grad_out, top, weight,
                        delta, grad_query, p.scale, p.offset, p.group, tile.rows, tile.cols, tile.depth,
                        operand_dtype(query));
  if (grad_bias.defined() && grad_bias.numel()) {
    const Tensor sums = four_dimensions(grad_bias);
    const int64_t bias_tiles = ceil_div(sums.size(2), tile.rows), bias_cols = sums.size(3);
    if (bias_cols == 1 && p.keys != 1)
      row_bias_kernel.launch({bias_tiles, sums.size(1), sums.size(0)}, grad_lse, weight, sums, tile.rows);
    else
      bias_kernel.launch({bias_tiles * ceil_div(bias_cols, tile.cols), sums.size(1), sums.size(0)}, query,
                         key, value, *scores_bias, grad_out, top, weight, delta, sums, p.scale, p.offset,
                         p.group, tile.rows, tile.cols, tile.depth, operand_dtype(query));
  }
}

// The batch of vmap goes into the batch of attention; a bias first gets all four dimensions.
VmapCall::Results fold_batch(VmapCall& call, std::vector<std::string> arguments) {
  if (call["attn_bias"].isTensor()) {
    const int64_t batched = call.batched("attn_bias");
    Tensor bias = call["attn_bias"].toTensor();
    while (bias.dim() < 4 + batched) bias = bias.unsqueeze(batched);
    call["attn_bias"] = bias;
    arguments.emplace_back("attn_bias");
  }
  return call.fold(arguments);
}

const auto attention_ =
    op("tile::attention(Tensor query, Tensor key, Tensor value, *, Tensor? attn_bias=None, bool "
       "is_causal=False, "
       "str causal_align=\"bottom_right\", float? scale=None) -> (Tensor out, Tensor lse)")
        .outputs([](const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& bias,
                    bool, const std::string& causal_align, std::optional<double>) {
          check_inputs(query, key, value, bias, causal_align);
          std::vector<c10::SymInt> sizes = query.sym_sizes().vec();
          const c10::SymIntArrayRef rows(sizes.data(), 3);
          Tensor lse = at::empty_symint(rows, sum_options(query));
          sizes[3] = value.sym_size(3);
          return std::tuple(empty_in_order(query, sizes), std::move(lse));
        })
        .saves("Tensor top, Tensor weight, Tensor residual")
        .saved_outputs([](const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&, bool,
                          const std::string&, std::optional<double>, const Tensor& out, const Tensor& lse) {
          // Empty where out is not rounded.
          std::vector<c10::SymInt> sizes = out.sym_sizes().vec();
          if (out.scalar_type() == lse.scalar_type()) sizes[3] = 0;
          return std::tuple(result_like(lse), result_like(lse), empty_in_order(out, sizes));
        })
        .run(run_forward)
        .vmap([](VmapCall& call) {
          return fold_batch(call, {"query", "key", "value"});
        })
        .autocast("lower")
        .grad("tile::attention_backward");

const auto attention_backward_ =
    op("tile::attention_backward(Tensor? grad_out, Tensor? grad_lse, Tensor query, Tensor key, Tensor value, "
       "Tensor out, "
       "Tensor top, Tensor weight, Tensor residual, *, Tensor? attn_bias, bool is_causal, str causal_align, "
       "float? scale, bool[4] output_mask) -> "
       "(Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor grad_attn_bias)")
        .outputs([](const OptionalTensor& grad_out, const OptionalTensor& grad_lse, const Tensor& query,
                    const Tensor& key, const Tensor& value, const Tensor& out, const Tensor& top,
                    const Tensor&, const Tensor&, const OptionalTensor& bias, bool,
                    const std::string& causal_align, std::optional<double>, std::array<bool, 4> mask) {
          check_inputs(query, key, value, bias, causal_align);
          const auto check_gradient = [](const OptionalTensor& grad, const Tensor& of, const char* name) {
            if (grad &&
                (!grad->sym_sizes().equals(of.sym_sizes()) || grad->scalar_type() != of.scalar_type()))
              fail(ErrorKind::value, "'grad_", name, "' is ", c10::toString(grad->scalar_type()),
                   grad->sym_sizes(), " but '", name, "' ", c10::toString(of.scalar_type()), of.sym_sizes(),
                   "; they must agree");
          };
          check_gradient(grad_out, out, "out");
          check_gradient(grad_lse, top, "lse");
          if (mask[3] && (!bias || !bias->is_floating_point()))
            fail(ErrorKind::value, "output_mask asks for the gradient of 'attn_bias', which is ",
                 bias ? "a bool mask" : "not given", "; clear its bit");
          const auto wanted = [&](bool want, const Tensor& of) {
            return want ? empty_in_order(of) : Tensor();
          };
          return std::tuple(wanted(mask[0], query), wanted(mask[1], key), wanted(mask[2], value),
                            mask[3] ? empty_in_order(*bias) : Tensor());
        })
        .run(run_backward)
        .vmap([](VmapCall& call) {
          if (call.wanted({"grad_attn_bias"})) return call.loop();
          std::vector<std::string> arguments{"query", "key", "value", "out", "top", "weight", "residual"};
          for (const char* gradient : {"grad_out", "grad_lse"})
            if (call[gradient].isTensor()) arguments.emplace_back(gradient);
          return fold_batch(call, arguments);
        });

}  // namespace
}  // namespace tile::attention
