// Which kernels run for a call of attention, and on what tiles.
#include "problem.h"

#include "../common/aligned_rows.h"
#include "../common/tuning.h"
#include "mask_blocks.h"
#include "splits.h"

namespace tile::attention {
namespace {

Kernel forward_kernel("attention_forward", forward);
Kernel delta_kernel("attention_backward_delta", backward_delta);
Kernel keys_kernel("attention_backward_keys", backward_keys);
Kernel query_kernel("attention_backward_query", backward_query);
Kernel rows_kernel("attention_backward_rows", backward_rows);
Kernel transposed_kernel("attention_backward_transposed", backward_transposed);
Kernel rounded_kernel("attention_backward_rounded", backward_rounded);
Kernel bias_kernel("attention_backward_bias", backward_bias);
Kernel bias_tiles_kernel("attention_backward_bias_tiles", backward_bias_tiles);
Kernel row_bias_kernel("attention_backward_row_bias", backward_row_bias);
Kernel sinks_kernel("attention_backward_sinks", backward_sinks);

bool is_small(const Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}
// Sizes of tiles have few values, because each is another kernel; 64 is a bucket of its own, because tiles
// without padding are faster. Tensor cores multiply heads of the usual sizes without padding.
int gpu_depth(const Tensor& query, int64_t depth) {
  if (!is_small(query)) return depth <= 64 ? 64 : depth <= 128 ? 128 : 256;
  for (int usual : {64, 80, 96, 128, 192})
    if (depth <= usual) return usual;
  return 256;
}
// A GPU's registers hold, besides scores, a bias, or the numbers and distances of options.
enum class Beside { nothing, bias, options };
// On a GPU two operands of a product are in shared memory, scores and sums in registers.
TileSize gpu_tile_size(const Tensor& query, int64_t depth, bool forward, Beside beside) {
  const int extent = gpu_depth(query, depth);
  const bool small = is_small(query);
  if (query.scalar_type() == at::kDouble) {
    const int64_t needed = 12 * 32 * extent * 8;  // what 32 rows took at most, of several products
    const int side = most_shared_bytes(to_array_argument(query)) < needed ? 16 : 32;
    return {side, side, extent};
  }
  if (extent > 128) return {32, 32, extent};
  // Sums are scaled and warps wait once a tile of keys, so these are as long as scores and sums fit.
  if (beside == Beside::options) return {small && forward ? 64 : 32, 32, extent};
  if (small && forward) return {128, extent > 64 && beside == Beside::bias ? 32 : 64, extent};
  return {64, small && extent > 64 ? 32 : 64, extent};
}
// The same for warpgroup instructions, where a thread holds sums of two products. Heads of 64 leave registers
// for a third group, which keeps the tensor cores busier; a short query would leave many of its rows empty,
// and a bias of more than 16 bits many registers spilled.
// numbers: each tile reads a bias, for which a third group leaves no registers, and one of more than 16 bits
// beside deep heads no shared memory. drops: random bits need registers, too.
TileSize group_tile_size(const Tensor& query, int64_t rows, int64_t depth, const OptionalTensor& bias,
                         bool numbers, bool drops) {
  const int extent = gpu_depth(query, depth);
  const bool wide = bias && bias->element_size() > 2;
  if (extent > 128 || drops || (extent > 64 && numbers && wide)) return {128, 64, extent};
  const bool third = extent <= 64 && rows >= tuning::attention_long_query && !wide && !numbers;
  return {third ? 192 : 128, 128, extent};
}
TileSize tile_size(const Tensor& query, int64_t depth, int64_t least, bool forward, Beside beside) {
  if (!query.is_cpu()) return gpu_tile_size(query, depth, forward, beside);
  return {128, 128, depth <= 64 && least <= 64 ? 64 : depth <= 128 && least <= 128 ? 128 : 256};
}
// With this many key heads, one pass that keeps a head's gradients to one block is busy enough, and saves two
// of seven products. A fixed number: results do not depend on the machine.
constexpr int64_t enough_heads = 8;

// The parameters of a call's kernels, found on the host.
using HostRule = RuleOf<Tensor, int, double>;
struct Problem {
  Problem(const Operands& of, const Request& request, const Packed* packed)
      : batch(packed ? packed->query_starts.size(0) - 1 : of.query.size(0)),
        heads(of.query.size(1)),
        rows(packed ? packed->rows : of.query.size(2)),
        key_heads(of.key.size(1)),
        keys(packed ? packed->keys : of.key.size(2)),
        depth(std::max(of.query.size(3), of.value.size(3))),
        group(heads / std::max<int64_t>(key_heads, 1)),
        rule{request.scale.value_or(usual_scale(of.query.size(3))), 0, static_cast<int>(group), {}, {}} {
    auto& options = rule.options;
    const bool from_last = request.causal_align == "bottom_right";
    // With packed samples a kernel adds the sample's own diagonal to this.
    const int64_t diagonal = from_last && !packed ? keys - rows : 0;
    const int64_t before = request.window[0];
    int64_t after = request.window[1];
    if (request.is_causal) after = 0;
    rule.offset = static_cast<int>(after >= 0 ? diagonal + std::min(after, farthest)
                                   : packed   ? farthest
                                              : keys);
    if (before >= 0) options.first = static_cast<int>(diagonal - std::min(before, farthest));
    if (request.softcap != 0) options.softcap = request.softcap;
    if (request.alibi_slopes) {
      options.slopes = request.alibi_slopes->expand({batch, heads});
      options.diagonal = static_cast<int>(diagonal);
    }
    if (request.dropout_p != 0) options.seed = request.seed, options.dropout = request.dropout_p;
    options.sinks = request.sinks;
    if (!packed) return;
    options.query_starts = packed->query_starts;
    options.key_starts = packed->key_starts;
    options.from_last = from_last && (after >= 0 || before >= 0 || request.alibi_slopes);
    all_rows = of.query.size(2);
  }
  // Farther than any key: lengths are far below it, and sums of the two are int32.
  static constexpr int64_t farthest = 1 << 29;
  int64_t batch, heads, rows, key_heads, keys, depth, group;  // rows and keys: of the longest sample
  std::optional<int64_t> all_rows;                            // of packed samples
  HostRule rule;

  // Returns true if no option hides a key from any query.
  bool shows_all_keys() const { return !rule.options.first && rule.offset >= (all_rows ? farthest : keys); }
  int64_t usual_rows() const { return all_rows ? *all_rows / std::max<int64_t>(batch, 1) : rows; }
  // Samples in arrays of whole tiles of a launch's samples, and the tiles of each, see Sample.
  int64_t tiled_samples(int64_t samples) const { return all_rows ? 1 : samples; }
  int64_t whole_tiles(int64_t tile_rows) const {
    return all_rows && rows ? *all_rows / tile_rows + batch : ceil_div(rows, tile_rows);
  }

  Beside beside(const OptionalTensor& bias) const {
    const auto& options = rule.options;
    if (options.softcap || options.slopes || options.dropout) return Beside::options;
    return bias ? Beside::bias : Beside::nothing;
  }
};

Tensor four_dimensions(Tensor bias) {
  while (bias.dim() < 4) bias = bias.unsqueeze(0);
  return bias;
}
// [batch or 1, heads or 1, query or 1, key or 1]: samples and heads whose mask is in the same memory share
// it.
Tensor shared_mask(const Tensor& bias) {
  Tensor mask = four_dimensions(bias);
  for (const int64_t axis : {0, 1})
    if (mask.size(axis) > 1 && mask.stride(axis) == 0) mask = mask.narrow(axis, 0, 1);
  return mask;
}
// [batch or 1, heads or 1, query, key] with stride 0 where rows or keys are broadcast.
OptionalTensor whole_bias(const OptionalTensor& bias, const Problem& p) {
  if (!bias) return std::nullopt;
  const Tensor shared = shared_mask(*bias);
  return shared.expand({shared.size(0), shared.size(1), p.rows, p.keys});
}
// Tiles of at most so many rows and columns are whole blocks of a summary.
constexpr TileSize word_tile{flag_side, word_columns, 0};
int64_t bits_of(const Tensor& bias, const Problem& p) {
  const Tensor mask = shared_mask(bias);
  return bytes_of_bits(mask.size(0) * mask.size(1), p.rows, p.keys);
}
// Returns true if the mask is summed up in bits.
bool has_bits(const Tensor& bias, const Problem& p) {
  return pays_for_summary(p.rows, p.keys, word_tile) && bits_of(bias, p) <= tuning::attention_bits_bytes;
}

// Returns true if the mask is a bias that kernels read only where its summary finds numbers or a part hidden.
bool is_picked_out(const Tensor& bias, const Problem& p) {
  return bias.is_floating_point() && pays_for_summary(p.rows, p.keys, word_tile);
}

// Returns true if a ring of kernels on warpgroup instructions may hold the bias's tiles: deeper heads leave
// no shared memory for them.
bool fits_ring(const Tensor& bias, const Problem& p) {
  constexpr int64_t deepest = 192;
  return bias.is_floating_point() && bias.element_size() <= 4 && p.depth <= deepest;
}
// Returns true if the copy unit can move the tiles there, too, so that these kernels do not wait for them.
bool is_copied_ahead(const Tensor& bias, const Problem& p) {
  return fits_ring(bias, p) && has_tensor_map(to_array_argument(*whole_bias(bias, p)));
}

// Returns true if the bias is taken to have numbers everywhere, so that a summary of it does not pay: masks
// are the same for all heads, and nobody wants their gradient.
bool has_numbers(const Tensor& bias, bool wants_gradient, const Problem& p) {
  return is_copied_ahead(bias, p) && (wants_gradient || shared_mask(bias).size(1) > 1);
}

// Returns true if warpgroup instructions can read the tensor.
bool read_by_groups(const Tensor& tensor) {
  const ArrayArgument array = to_array_argument(tensor);
  return multiplies_by_groups(array) && has_tensor_map(array);
}
// Returns true if kernels on warpgroup instructions do what is asked for: besides query, key and value they
// only take what is computed from positions, a mask's bits, and a floating bias that is copied ahead or is in
// tiles that a summary picks out. Random bits beside the sums of a deep head would leave registers for
// nothing; beside packed samples no test runs them.
bool fits_groups(const OptionalTensor& bias, const Problem& p) {
  const auto& options = p.rule.options;
  return (!bias || has_bits(*bias, p) || is_picked_out(*bias, p) || is_copied_ahead(*bias, p)) &&
         !(options.dropout && (p.depth > 128 || options.query_starts));
}
bool runs_by_groups(const Operands& of, const OptionalTensor& bias, const Problem& p) {
  return fits_groups(bias, p) && read_by_groups(of.query) && read_by_groups(of.key) &&
         read_by_groups(of.value);
}

// Operands of kernels that fit warpgroup instructions: those that no tensor map describes are copied where
// that pays.
class GroupOperands {
 public:
  // wants_gradient: of the bias.
  GroupOperands(const Operands& of, const OptionalTensor& grad_out, const OptionalTensor& bias,
                bool wants_gradient, const Problem& p)
      : query_(of.query), key_(of.key), value_(of.value), grad_out_(grad_out), bias_(bias) {
    if (!multiplies_by_groups(to_array_argument(query_))) return;
    const bool pays =
        p.rows * p.group >= tuning::attention_copied_rows || p.keys <= tuning::attention_copied_rows;
    if (!pays) return;
    if (bias) copy_bias(wants_gradient, p);
    if (!fits_groups(bias_, p)) return;
    std::vector<Tensor*> copied;
    for (Tensor* tensor : {&query_, &key_, &value_, grad_out_ ? &*grad_out_ : nullptr})
      if (tensor && tensor->numel() && !read_by_groups(*tensor)) copied.push_back(tensor);
    int64_t bytes = bytes_;
    for (const Tensor* tensor : copied) bytes += bytes_in_aligned_rows(*tensor);
    if (bytes + (bias_ && has_bits(*bias_, p) ? bits_of(*bias_, p) : 0) > tuning::attention_bits_bytes)
      return;
    for (Tensor* tensor : copied) *tensor = copy_in_aligned_rows(*tensor);
    bytes_ = bytes;
  }
  Operands operands() const { return {query_, key_, value_}; }
  const OptionalTensor& grad_out() const { return grad_out_; }
  const OptionalTensor& bias() const { return bias_; }
  int64_t bytes() const { return bytes_; }

 private:
  // One of numbers, and one that no summary picks out.
  void copy_bias(bool wants_gradient, const Problem& p) {
    const Tensor own = shared_mask(*bias_);
    const auto& options = p.rule.options;
    const bool has_numbers = wants_gradient || own.size(1) > 1 || !is_picked_out(own, p),
               is_whole = own.size(2) == p.rows && own.size(3) == p.keys;
    if (!fits_ring(own, p) || options.dropout || options.query_starts || !has_numbers || !is_whole ||
        is_copied_ahead(own, p) || bytes_in_aligned_rows(own) > tuning::attention_bits_bytes)
      return;
    bias_ = copy_in_aligned_rows(own);
    bytes_ = bytes_in_aligned_rows(own);
  }

  Tensor query_, key_, value_;
  OptionalTensor grad_out_, bias_;
  int64_t bytes_ = 0;  // of the copies
};

// In 16 bits that pass has sums of the queries' gradient besides the result, for so many key heads at once.
int64_t heads_at_once(const Tensor& query, const Problem& p) {
  const int64_t each = p.group * p.rows * query.size(3) * static_cast<int64_t>(sizeof(float));
  return std::min(p.batch * p.key_heads, tuning::attention_head_sum_bytes / std::max<int64_t>(each, 1));
}

// Returns true if heads are the grid's first axis, which a kernel's BlockIndex must know; and that grid.
bool heads_first(const Tensor& query) { return !query.is_cpu(); }
Grid grid_of(const Tensor& query, int64_t tiles, int64_t heads, int64_t batch) {
  return heads_first(query) ? Grid{heads, tiles, batch} : Grid{tiles, heads, batch};
}

// Returns true if a summary pays: on a CPU it takes as long as a few heads of a short head dim.
bool is_summed_up(const Tensor& bias, const Problem& p, const TileSize& tile) {
  const Tensor mask = shared_mask(bias);
  const int64_t shared_by = p.batch * p.heads / std::max<int64_t>(mask.size(0) * mask.size(1), 1);
  return pays_for_summary(p.rows, p.keys, tile) &&
         (!bias.is_cpu() || shared_by >= tuning::attention_cpu_shared_mask);
}
// Heads and samples that share a mask share its summary.
MaskSummary summary_of(const Tensor& bias, const Problem& p, BitsOf bits) {
  return {*whole_bias(bias, p), {p.rule.offset, p.rule.options.first}, bits};
}
// A mask's bits hide what options hide as well, so that kernels ask neither options nor a bool mask. A
// floating one may also have numbers.
void hide_in_bits(OptionalTensor& bias, HostRule& rule) {
  if (!bias->is_floating_point()) bias.reset();
  rule.options.first.reset();
}
OptionalTensor if_any(const OptionalTensor& tensor) {
  return tensor && tensor->numel() ? tensor : std::nullopt;
}
OptionalTensor if_defined(const Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

// Returns true if rows of 16-bit floats are whole vectors of 16 bytes: these are copied to shared memory past
// the registers.
bool in_vectors(const Tensor& x) {
  constexpr int vector = 8;
  return x.stride(3) == 1 && x.size(3) % vector == 0 && x.stride(0) % vector == 0 &&
         x.stride(1) % vector == 0 && x.stride(2) % vector == 0;
}
// Returns true if the gradients' kernels run on warpgroup instructions.
bool gradients_by_groups(const Backward& call, const OptionalTensor& bias, const Problem& p) {
  return runs_by_groups(call.operands, bias, p) &&
         (!call.incoming.grad_out || read_by_groups(*call.incoming.grad_out));
}
// The heads of their tiles. Two groups divide the columns of the query's gradient, and each takes half of a
// panel of 64 columns or whole ones.
int group_depth(const Problem& p) { return static_cast<int>(ceil_div(p.depth, 64) * 64); }
// Returns true if the kernel of transposed scores computes the gradients of key and value. A deep head that
// is not in vectors would fill the registers, so it takes two passes with smaller tiles.
bool takes_transposed(const Backward& call, const OptionalTensor& bias, const Problem& p) {
  const auto& [query, key, value] = call.operands;
  const OptionalTensor& grad_out = call.incoming.grad_out;
  if (!is_small(query) || query.is_cpu()) return false;
  if (gradients_by_groups(call, bias, p)) return true;
  if (p.depth > 128) return false;
  return p.depth <= 64 ||
         (in_vectors(query) && in_vectors(key) && in_vectors(value) && (!grad_out || in_vectors(*grad_out)));
}
// Returns true if that kernel reads bits. Beside a floating bias their loop would be a third one, for which
// the sums of all products leave no registers where the head is longer than 64.
bool has_transposed_bits(const Backward& call, const OptionalTensor& bias, const Problem& p) {
  return has_bits(*bias, p) && (!bias->is_floating_point() || (gradients_by_groups(call, bias, p) &&
                                                               (p.depth <= 64 || group_depth(p) > 128)));
}
// A launch of that kernel: its tile, and the gradients that it computes.
struct Pass {
  TileSize tile;
  bool key = true, value = true, query = true;  // query: where it may be added up in no fixed order
  std::optional<Visits<Tensor>> visits = std::nullopt;
};
// On warpgroup instructions the registers hold the sums of all five products. Those of deep heads have 64
// keys, of which two groups divide the columns. A deep gradient of key or value alone is cheaper on 128 keys;
// fewer rows of query and grad_out then leave room for two stages. Otherwise 32 rows a warp where the
// gradients' sums leave room for its scores, else 16: see cuda/mma_plan.h.
std::vector<Pass> transposed_passes(const Backward& call, const OptionalTensor& bias, const Problem& p) {
  if (gradients_by_groups(call, bias, p)) {
    const int depth = group_depth(p);
    // Twice the rows fit registers beside nothing else. float16, which takes instructions to widen, spills.
    const bool plain = p.beside(std::nullopt) == Beside::nothing &&
                       !(call.bias && call.bias->is_floating_point()) &&
                       call.operands.query.scalar_type() == at::kBFloat16;
    const bool drops = p.rule.options.dropout.has_value();
    if (depth <= 128) return {{{depth <= 64 && plain ? 128 : 64, depth > 64 && drops ? 64 : 128, depth}}};
    const bool of_key = call.grads.key.defined(), of_value = call.grads.value.defined();
    // The rows of packed samples are stored for tiles of one size.
    if (of_key && of_value && (call.incoming.grad_out || p.all_rows)) return {{{64, 64, depth}}};
    std::vector<Pass> passes;
    if (of_value) passes.push_back({{64, 128, depth}, false, true, false});
    if (of_key) passes.push_back({{32, 128, depth}, true, false, false});
    return passes;
  }
  const Tensor& query = call.operands.query;
  const int depth = gpu_depth(query, p.depth);
  if (p.beside(std::nullopt) == Beside::options) return {{{32, 64, depth}}};
  if (p.depth <= 64) return {{{32, 128, 64}}};
  return {{most_shared_bytes(to_array_argument(query)) >= tuning::attention_large_tiles_bytes
               ? TileSize{64, 128, depth}
               : TileSize{32, 64, depth}}};
}

// The tile of the query's gradient where it has a launch of its own.
TileSize query_tile(const Backward& call, const OptionalTensor& bias, const Problem& p,
                    const TileSize& usual) {
  if (!gradients_by_groups(call, bias, p)) return usual;
  const int depth = group_depth(p);
  return {128, depth > 128 ? 32 : 64, depth};
}

// Returns true if the bias's gradient has a kernel on warpgroup instructions: it has a number for each score,
// and four tiles of heads fit shared memory twice.
bool takes_bias_tiles(const Backward& call, const OptionalTensor& bias, const Problem& p) {
  const Tensor grad = four_dimensions(call.grad_bias);
  return grad.numel() && grad.size(2) == p.rows && grad.size(3) == p.keys && p.depth <= 128 &&
         !p.rule.options.dropout && gradients_by_groups(call, bias, p);
}
void run_bias_tiles(const Backward& call, const OptionalTensor& bias, const Problem& p) {
  const auto& [query, key, value] = call.operands;
  const Tensor grad = four_dimensions(call.grad_bias);
  const int depth = group_depth(p);
  const TileSize tile{128, depth <= 64 && bias->element_size() == 2 ? 128 : 96, depth};
  const int64_t row_tiles = ceil_div(p.rows, tile.rows), key_tiles = ceil_div(p.keys, tile.cols),
                span = std::clamp<int64_t>(
                    row_tiles * key_tiles * grad.size(0) * grad.size(1) / tuning::attention_bias_blocks, 1,
                    tuning::attention_bias_span);
  const Tensor shift = at::empty({p.batch, p.heads, row_tiles * tile.rows}, call.saved.top.options()),
               delta = result_like(shift);
  rows_kernel.launch({row_tiles, p.heads, p.batch}, {.of = {.grad_out = call.incoming.grad_out,
                                                            .out = call.saved.out,
                                                            .residual = if_any(call.saved.residual),
                                                            .grad_lse = call.incoming.grad_lse},
                                                     .top = call.saved.top,
                                                     .weight = call.saved.weight,
                                                     .shift = shift,
                                                     .delta = delta,
                                                     .scale = 1.0,
                                                     .options = as_launched(p.rule.options),
                                                     .rows = tile.rows,
                                                     .depth = depth});
  HostRule rule = p.rule;
  rule.options.all_keys = !rule.options.first && rule.offset >= p.keys;
  bias_tiles_kernel.launch({row_tiles * ceil_div(key_tiles, span), grad.size(1), grad.size(0)},
                           {.in = {query, key, value, bias},
                            .grad_out = call.incoming.grad_out,
                            .shift = shift,
                            .delta = delta,
                            .grad_bias = grad,
                            .rule = as_launched(rule),
                            .span = static_cast<int>(span),
                            .tile = tile});
}

// The part's own of [samples, heads, ...]; of what is packed, its heads of all samples. What all heads share
// stays as it is.
Tensor own_part(const Tensor& of, const Split& part, int64_t heads_of_key) {
  const int64_t heads = part.key_heads * heads_of_key;
  const bool all = heads == of.size(1) || of.size(1) == 1;
  const Tensor own = all ? of : of.narrow(1, part.key_head * heads_of_key, heads);
  return of.size(0) == 1 || part.samples == of.size(0) ? own : own.narrow(0, part.sample, part.samples);
}
HostRule own_rule(const Problem& p, const Split& part) {
  HostRule rule = p.rule;
  auto& options = rule.options;
  if (options.slopes) options.slopes = own_part(*options.slopes, part, p.group);
  for (OptionalTensor* starts : {&options.query_starts, &options.key_starts})
    if (*starts && part.samples < p.batch) *starts = (*starts)->narrow(0, part.sample, part.samples + 1);
  const int64_t before = part.key_head * p.group + part.sample * p.heads;
  if (options.dropout && before) options.heads_before = static_cast<int>(before);
  if (part.count < p.group)
    rule.members = {rule.group, static_cast<int>(part.first), static_cast<int>(part.count)};
  return rule;
}

// The launches for keys, and what they need of each row. With `adds` also the gradient of its query heads.
void run_part(const Backward& call, const OptionalTensor& bias, const Problem& p,
              const std::vector<Pass>& passes, const Split& part, bool adds) {
  const auto own = [&](const Tensor& tensor, int64_t heads_of_key) {
    return own_part(tensor, part, heads_of_key);
  };
  const auto own_if = [&](const OptionalTensor& tensor, int64_t heads_of_key) {
    return tensor && tensor->defined() ? OptionalTensor(own(*tensor, heads_of_key)) : std::nullopt;
  };
  const auto& [query, key, value] = call.operands;
  const auto& [out, top, weight, residual] = call.saved;
  HostRule rule = own_rule(p, part);
  auto of_rows = rule.options;
  of_rows.heads_before.reset();  // these do not ask, and have fewer kernels
  of_rows.all_keys = of_rows.whole_keys = false;
  const TileSize& first = passes[0].tile;
  const int64_t heads = part.key_heads * part.count, row_tiles = ceil_div(p.rows, first.rows),
                samples = p.tiled_samples(part.samples), whole_tiles = p.whole_tiles(first.rows);
  const Tensor shift = at::empty({samples, heads, whole_tiles * first.rows}, top.options()),
               delta = result_like(shift);
  OptionalTensor sums;
  if (adds && shift.numel())
    sums = at::empty({samples, heads, whole_tiles, first.rows * first.depth}, top.options());
  if (shift.numel())
    rows_kernel.launch({row_tiles, heads, part.samples},
                       {.of = {.grad_out = own_if(call.incoming.grad_out, p.group),
                               .out = own(out, p.group),
                               .residual = own_if(if_any(residual), p.group),
                               .grad_lse = own_if(call.incoming.grad_lse, p.group)},
                        .top = own(top, p.group),
                        .weight = own(weight, p.group),
                        .shift = shift,
                        .delta = delta,
                        .sums = sums,
                        .scale = rule.scale,
                        .members = as_launched(rule.members),
                        .options = as_launched(of_rows),
                        .rows = first.rows,
                        .depth = first.depth});
  rule.options.skips = p.all_rows && gradients_by_groups(call, bias, p);
  for (const auto& [tile, of_key, of_value, of_query, visits] : passes) {
    std::optional<Visits<Tensor>> own_visits;
    if (visits) own_visits = {own(visits->list, p.group), own_if(visits->bits, p.group)};
    if (const int64_t key_tiles = ceil_div(p.keys, tile.cols))
      transposed_kernel.launch({part.key_heads, key_tiles, part.samples},
                               {.in = {own(query, p.group), own(key, 1), own(value, 1), own_if(bias, p.group),
                                       as_launched(own_visits)},
                                .grad_out = own_if(call.incoming.grad_out, p.group),
                                .shift = shift,
                                .delta = delta,
                                .grad_key = of_key ? own_if(call.grads.key, 1) : std::nullopt,
                                .grad_value = of_value ? own_if(call.grads.value, 1) : std::nullopt,
                                .sums = of_query ? sums : std::nullopt,
                                .rule = as_launched(rule),
                                .more = part.first > 0,
                                .tile = tile});
  }
  if (sums)
    rounded_kernel.launch({row_tiles, heads, part.samples}, *sums, own(call.grads.query, p.group),
                          rule.members, of_rows, first.rows, first.depth);
}

// The gradients of key and value, and that of query where it may be added up in no fixed order, in parts that
// are busy enough; returns whether it was.
bool run_transposed(const Backward& call, OptionalTensor bias, const std::optional<MaskSummary>& summary,
                    Problem p, Limits limits) {
  std::vector<Pass> passes = transposed_passes(call, bias, p);
  const TileSize& tile = passes[0].tile;
  if (gradients_by_groups(call, bias, p)) {
    auto& options = p.rule.options;
    options.all_keys = p.shows_all_keys();
    options.whole_keys = !p.all_rows && std::all_of(passes.begin(), passes.end(), [&](const Pass& pass) {
      return p.keys % pass.tile.cols == 0;
    });
  }
  if (summary) {
    limits.bytes -= summary->bytes();
    for (Pass& pass : passes) {
      pass.visits = summary->queries_of_keys(pass.tile, p.batch, p.heads);
      limits.bytes -= static_cast<int64_t>(pass.visits->list.storage().nbytes());
    }
    if (passes[0].visits->bits) hide_in_bits(bias, p.rule);
  }
  // Packed samples are one: only a GPU knows what a part of them takes.
  const int64_t samples = p.tiled_samples(p.batch), packed = p.batch / std::max<int64_t>(samples, 1);
  const Heads heads{samples, p.key_heads, p.group, packed * ceil_div(p.keys, tile.cols)};
  const int64_t row_bytes =
      p.whole_tiles(tile.rows) * tile.rows * static_cast<int64_t>(sizeof(float));  // of a number a row
  std::optional<std::vector<Split>> of_sums;
  if (call.grads.query.defined() && passes[0].query && !wants_fixed_order())
    of_sums = splits_of_sums(heads, row_bytes * tile.depth, limits);
  for (Split part : of_sums ? *of_sums : splits_of(heads, 2 * row_bytes, limits)) {
    part.samples *= packed;
    run_part(call, bias, p, passes, part, of_sums.has_value());
  }
  return of_sums.has_value();
}

}  // namespace

DType operand_dtype(const Tensor& query) {
  const DType dtype = to_dtype(query.scalar_type());
  return multiplies_as_it_is(to_array_argument(query)) ? dtype : sum_dtype(dtype);
}

void run_forward(const Operands& given, const OptionalTensor& given_bias, const Request& request,
                 const Results& results, const Packed* packed) {
  Problem p(given, request, packed);
  const Tensor& lse = results.lse;
  if (lse.numel() == 0) return;
  const bool wants_gradient = given_bias && given_bias->requires_grad();
  const GroupOperands read(given, std::nullopt, given_bias, wants_gradient, p);
  const Operands operands = read.operands();
  const OptionalTensor& bias = read.bias();
  const Tensor& query = operands.query;
  const bool groups = runs_by_groups(operands, bias, p);
  const bool numbers = groups && bias && has_numbers(*bias, wants_gradient, p);
  const TileSize tile = groups ? group_tile_size(query, p.usual_rows(), p.depth, bias, numbers,
                                                 p.rule.options.dropout.has_value())
                               : tile_size(query, p.depth, 64, true, p.beside(bias));
  // Blocks then have equal work, and a persistent kernel loads a block's tiles while it stores the last
  // one's.
  p.rule.options.all_keys = groups && p.shows_all_keys();
  p.rule.options.skips = groups && packed;
  OptionalTensor scores_bias = whole_bias(bias, p);
  std::optional<Visits<Tensor>> visits;
  if (bias && !numbers && is_summed_up(*bias, p, tile)) {
    const bool bits = groups && has_bits(*bias, p);
    visits = summary_of(*bias, p, bits ? BitsOf::queries : BitsOf::nothing)
                 .keys_of_queries(tile, p.batch, p.heads);
    if (bits) hide_in_bits(scores_bias, p.rule), p.rule.options.all_keys = true;
  }
  forward_kernel.launch(grid_of(query, ceil_div(p.rows, tile.rows), p.heads, p.batch),
                        {.in = {query, operands.key, operands.value, scores_bias, as_launched(visits)},
                         .out = results.out,
                         .lse = lse,
                         .top = results.top ? *results.top : at::empty(lse.sizes(), lse.options()),
                         .weight = results.weight ? *results.weight : at::empty(lse.sizes(), lse.options()),
                         .residual = if_any(results.residual),
                         .rule = as_launched(p.rule),
                         .tile = tile,
                         .operand = operand_dtype(query),
                         .heads_first = heads_first(query),
                         .negative = p.rule.scale < 0});
}

void run_backward(const Backward& given, const Request& request, const Packed* packed) {
  const Problem p(given.operands, request, packed);
  const GroupOperands read(given.operands, given.incoming.grad_out, given.bias, given.grad_bias.defined(), p);
  const OptionalTensor scores_bias = whole_bias(read.bias(), p);
  const Backward call{{read.grad_out(), given.incoming.grad_lse},
                      read.operands(),
                      read.bias(),
                      given.saved,
                      given.grads,
                      given.grad_bias,
                      given.grad_sinks};
  const auto& [query, key, value] = call.operands;
  const auto& [out, top, weight, residual] = call.saved;
  const bool for_keys = call.grads.key.defined() || call.grads.value.defined();
  const int64_t heads = p.batch * p.key_heads, at_once = is_small(query) ? heads_at_once(query, p) : heads;
  const bool one_pass = for_keys && call.grads.query.defined() && query.is_cpu() && at_once >= enough_heads;
  const TileSize tile = tile_size(query, p.depth, one_pass ? 64 : 128, false, p.beside(call.bias));
  const int64_t row_tiles = ceil_div(p.rows, tile.rows), key_tiles = ceil_div(p.keys, tile.cols);
  const bool transposed = for_keys && takes_transposed(call, scores_bias, p);
  std::optional<MaskSummary> summary;
  const bool numbers = call.bias && has_numbers(*call.bias, call.grad_bias.defined(), p) &&
                       gradients_by_groups(call, call.bias, p);
  if (call.bias && !numbers && is_summed_up(*call.bias, p, tile))
    summary =
        summary_of(*call.bias, p,
                   transposed && has_transposed_bits(call, call.bias, p) ? BitsOf::keys : BitsOf::nothing);
  Limits limits = split_limits;
  limits.bytes -= read.bytes();
  const bool for_query = !(transposed && run_transposed(call, scores_bias, summary, p, limits)) &&
                         call.grads.query.defined() && !one_pass;
  if (summary) summary->drop_bits();
  const Tensor delta = at::empty(top.sizes(), top.options());
  const bool bias_tiles = call.grad_bias.defined() && takes_bias_tiles(call, scores_bias, p);
  const bool for_bias = call.grad_bias.defined() && !bias_tiles;
  if (delta.numel() && (!transposed || for_query || for_bias || call.grad_sinks.defined()))
    delta_kernel.launch({row_tiles, p.heads, p.batch},
                        {call.incoming.grad_out, out, if_any(residual), call.incoming.grad_lse}, delta,
                        as_launched(p.rule.options), tile.rows, static_cast<int>(most_depth));

  const auto incoming = [&](std::optional<Visits<Tensor>> visits = std::nullopt) {
    return Incoming<Tensor>{
        {query, key, value, scores_bias, std::move(visits)}, call.incoming.grad_out, top, weight, delta};
  };
  const DType operand = operand_dtype(query);
  if (for_keys && !transposed && p.batch * p.key_heads > 0) {
    std::optional<Visits<Tensor>> queries;
    if (summary) queries = summary->queries_of_keys(tile, p.batch, p.heads);
    const auto launch = [&](const Grid& grid, int64_t span, const OptionalTensor& result,
                            const OptionalTensor& sums, std::optional<int> first) {
      keys_kernel.launch(grid, {.from = as_launched(incoming(queries)),
                                .grad_key = if_defined(call.grads.key),
                                .grad_value = if_defined(call.grads.value),
                                .grad_query = result,
                                .partial = sums,
                                .rule = as_launched(p.rule),
                                .span = static_cast<int>(span),
                                .first = first,
                                .tile = tile,
                                .operand = operand,
                                .heads_first = heads_first(query)});
    };
    if (one_pass && is_small(query)) {
      const Tensor sums = at::empty({at_once, p.group, p.rows, query.size(3)}, top.options());
      for (int64_t first = 0; first < heads; first += at_once)
        launch({std::min(at_once, heads - first)}, key_tiles, call.grads.query, sums,
               static_cast<int>(first));
    } else if (one_pass) {
      launch({1, p.key_heads, p.batch}, key_tiles, call.grads.query, std::nullopt, std::nullopt);
    } else if (key_tiles) {
      launch(grid_of(query, key_tiles, p.key_heads, p.batch), 1, std::nullopt, std::nullopt, std::nullopt);
    }
  }
  if (for_query && delta.numel()) {
    const TileSize own_tile = query_tile(call, scores_bias, p, tile);
    Incoming<Tensor> from = incoming();
    HostRule rule = p.rule;
    if (summary && gradients_by_groups(call, scores_bias, p) && has_bits(*call.bias, p)) {
      from.in.visits = summary_of(*call.bias, p, BitsOf::queries).keys_of_queries(own_tile, p.batch, p.heads);
      hide_in_bits(from.in.bias, rule);
    } else if (summary) {
      from.in.visits = summary->keys_of_queries(own_tile, p.batch, p.heads);
    }
    query_kernel.launch(grid_of(query, ceil_div(p.rows, own_tile.rows), p.heads, p.batch),
                        {.from = as_launched(from),
                         .grad_query = call.grads.query,
                         .rule = as_launched(rule),
                         .tile = own_tile,
                         .operand = operand,
                         .heads_first = heads_first(query)});
  }
  if (bias_tiles) {
    run_bias_tiles(call, scores_bias, p);
  } else if (for_bias && call.grad_bias.numel()) {
    const Tensor sums = four_dimensions(call.grad_bias);
    const int64_t bias_rows = ceil_div(sums.size(2), tile.rows), bias_cols = sums.size(3);
    if (bias_cols == 1 && p.keys != 1 && !p.rule.options.sinks)
      row_bias_kernel.launch({bias_rows, sums.size(1), sums.size(0)}, call.incoming.grad_lse, weight, sums,
                             tile.rows);
    else
      bias_kernel.launch({bias_rows * ceil_div(bias_cols, tile.cols), sums.size(1), sums.size(0)},
                         {.from = as_launched(incoming()),
                          .grad_bias = sums,
                          .rule = as_launched(p.rule),
                          .tile = tile,
                          .operand = operand});
  }
  if (call.grad_sinks.defined() && p.heads)
    sinks_kernel.launch({p.heads}, *request.sinks, top, weight, delta, call.grad_sinks, 1024);
}

}  // namespace tile::attention
