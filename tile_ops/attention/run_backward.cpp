// The gradients' launches.
#include "../common/tuning.h"
#include "group_operands.h"
#include "operand_gradients.h"
#include "splits.h"
#include "tile_choice.h"

namespace tile::attention {
namespace {

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

// With this many key heads, one pass that keeps a head's gradients to one block is busy enough, and saves two
// of seven products. A fixed number: results do not depend on the machine.
constexpr int64_t enough_heads = 8;

// In 16 bits that pass has sums of the queries' gradient besides the result, for so many key heads at once.
int64_t heads_at_once(const Tensor& query, const Problem& p) {
  const int64_t each = p.group * p.rows * query.size(3) * static_cast<int64_t>(sizeof(float));
  return std::min(p.batch * p.key_heads, tuning::attention_head_sum_bytes / std::max<int64_t>(each, 1));
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
bool gradients_by_groups(const Backward& call, const Problem& p) {
  return runs_by_groups(call.operands, call.bias, p) && !is_differentiated() &&
         (!call.incoming.grad_out || read_by_groups(*call.incoming.grad_out));
}
// The heads of their tiles. Two groups divide the columns of the query's gradient, and each takes half of a
// panel of 64 columns or whole ones.
int group_depth(const Problem& p) { return static_cast<int>(ceil_div(p.depth, 64) * 64); }
// Returns true if the kernel of transposed scores computes the gradients of key and value. A deep head that
// is not in vectors would fill the registers, so it takes two passes with smaller tiles.
bool takes_transposed(const Backward& call, bool groups, const Problem& p) {
  const auto& [query, key, value] = call.operands;
  const OptionalTensor& grad_out = call.incoming.grad_out;
  if (!is_small(query) || query.is_cpu()) return false;
  if (groups) return true;
  if (p.depth > 128) return false;
  return p.depth <= 64 ||
         (in_vectors(query) && in_vectors(key) && in_vectors(value) && (!grad_out || in_vectors(*grad_out)));
}
// Returns true if that kernel reads bits. Beside a floating bias their loop would be a third one, for which
// the sums of all products leave no registers where the head is longer than 64.
bool has_transposed_bits(const Tensor& bias, bool groups, const Problem& p) {
  return has_bits(bias, p) &&
         (!bias.is_floating_point() || (groups && (p.depth <= 64 || group_depth(p) > 128)));
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
std::vector<Pass> transposed_passes(const Backward& call, bool groups, const Problem& p) {
  if (groups) {
    const int depth = group_depth(p);
    // Twice the rows fit registers beside nothing else. float16, which takes instructions to widen, spills.
    const bool plain = p.beside(std::nullopt) == Beside::nothing &&
                       !(call.bias && call.bias->is_floating_point()) &&
                       call.operands.query.scalar_type() == at::kBFloat16;
    const bool few_keys = p.reads_tables() || (depth > 64 && p.rule.options.dropout);
    if (depth <= 128) return {{{depth <= 64 && plain ? 128 : 64, few_keys ? 64 : 128, depth}}};
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
TileSize query_tile(bool groups, const Problem& p, const TileSize& usual) {
  if (!groups) return usual;
  const int depth = group_depth(p);
  return {128, depth > 128 ? 32 : 64, depth};
}

// Returns true if the bias's gradient has a kernel on warpgroup instructions: it has a number for each score,
// and four tiles of heads fit shared memory twice.
bool takes_bias_tiles(const Backward& call, bool groups, const Problem& p) {
  if (!groups || p.depth > 128 || p.rule.options.dropout) return false;
  const Tensor grad = four_dimensions(call.grad_bias);
  return grad.numel() && grad.size(2) == p.rows && grad.size(3) == p.keys;
}

// The part's own of [samples, heads, ...]; of what is packed, its heads of all samples. What all heads share
// stays as it is.
Tensor own_part(const Tensor& of, const Split& part, int64_t heads_of_key) {
  const int64_t heads = part.key_heads * heads_of_key;
  const bool all = heads == of.size(1) || of.size(1) == 1;
  const Tensor own = all ? of : of.narrow(1, part.key_head * heads_of_key, heads);
  return of.size(0) == 1 || part.samples == of.size(0) ? own : own.narrow(0, part.sample, part.samples);
}
OptionalTensor own_part(const OptionalTensor& of, const Split& part, int64_t heads_of_key) {
  return of && of->defined() ? OptionalTensor(own_part(*of, part, heads_of_key)) : std::nullopt;
}
HostRule own_rule(const Problem& p, const Split& part) {
  HostRule rule = p.rule;
  auto& options = rule.options;
  if (options.slopes) options.slopes = own_part(*options.slopes, part, p.group);
  for (OptionalTensor* starts : {&options.query_starts, &options.key_starts})
    if (*starts && part.samples < p.batch) *starts = (*starts)->narrow(0, part.sample, part.samples + 1);
  if (options.text) {
    for (size_t k = 0; k < options.text->operands.size(); ++k)
      if (Tensor& operand = options.text->operands[k]; options.text->varies[k] != table)
        operand = own_part(operand, part, p.group);
    if (part.sample) options.text->samples_before = static_cast<int>(part.sample);
    if (part.key_head) options.text->heads_before = static_cast<int>(part.key_head * p.group);
  }
  const int64_t before = part.key_head * p.group + part.sample * p.heads;
  if (options.dropout && before) options.heads_before = static_cast<int>(before);
  if (part.count < p.group)
    rule.members = {rule.group, static_cast<int>(part.first), static_cast<int>(part.count)};
  return rule;
}

// Scores are computed elsewhere.
auto options_without_text(const HostRule& rule) {
  auto options = rule.options;
  options.text.reset();
  return options;
}
// Kernels of rows ask for none of these options, so that there are fewer of them.
auto options_of_rows(const HostRule& rule) {
  auto options = options_without_text(rule);
  options.heads_before.reset();
  options.all_keys = options.whole_keys = false;
  return options;
}
// Numbers of each row that the gradients' kernels read, and sums for the gradient of query if `adds`.
struct RowNumbers {
  Tensor shift, delta;
  OptionalTensor sums;
};
RowNumbers numbers_of_rows(const Backward& call, const Problem& p, const Split& part, const HostRule& rule,
                           double scale, const TileSize& tile, bool adds) {
  const int64_t heads = part.key_heads * part.count, samples = p.tiled_samples(part.samples),
                whole_tiles = p.whole_tiles(tile.rows);
  const auto& [out, top, weight, residual] = call.saved;
  RowNumbers rows;
  rows.shift = at::empty({samples, heads, whole_tiles * tile.rows}, top.options());
  rows.delta = result_like(rows.shift);
  if (!rows.shift.numel()) return rows;
  if (adds) rows.sums = at::empty({samples, heads, whole_tiles, tile.rows * tile.depth}, top.options());
  rows_kernel.launch({ceil_div(p.rows, tile.rows), heads, part.samples},
                     {.of = {.grad_out = own_part(call.incoming.grad_out, part, p.group),
                             .out = own_part(out, part, p.group),
                             .residual = own_part(if_any(residual), part, p.group),
                             .grad_lse = own_part(call.incoming.grad_lse, part, p.group)},
                      .top = own_part(top, part, p.group),
                      .weight = own_part(weight, part, p.group),
                      .shift = rows.shift,
                      .delta = rows.delta,
                      .sums = rows.sums,
                      .scale = scale,
                      .members = as_launched(rule.members),
                      .options = as_launched(options_of_rows(rule)),
                      .rows = tile.rows,
                      .depth = tile.depth});
  return rows;
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
  const Split all{0, p.batch, 0, p.key_heads, 0, p.group};
  const RowNumbers rows = numbers_of_rows(call, p, all, p.rule, 1.0, tile, false);
  HostRule rule = p.rule;
  rule.options.all_keys = p.shows_all_keys();
  bias_tiles_kernel.launch({row_tiles * ceil_div(key_tiles, span), grad.size(1), grad.size(0)},
                           {.in = {query, key, value, bias},
                            .grad_out = call.incoming.grad_out,
                            .shift = rows.shift,
                            .delta = rows.delta,
                            .grad_bias = grad,
                            .rule = as_launched(rule),
                            .span = static_cast<int>(span),
                            .tile = tile});
}

// The launches for keys. With `adds` also the gradient of its query heads.
void run_part(const Backward& call, const OptionalTensor& bias, bool groups, const Problem& p,
              const std::vector<Pass>& passes, const Split& part, bool adds) {
  const auto& [query, key, value] = call.operands;
  HostRule rule = own_rule(p, part);
  const TileSize& first = passes[0].tile;
  const RowNumbers rows = numbers_of_rows(call, p, part, rule, rule.scale, first, adds);
  rule.options.skips = p.all_rows && groups;
  for (const auto& [tile, of_key, of_value, of_query, visits] : passes) {
    std::optional<Visits<Tensor>> own_visits;
    if (visits) own_visits = {own_part(visits->list, part, p.group), own_part(visits->bits, part, p.group)};
    if (const int64_t key_tiles = ceil_div(p.keys, tile.cols))
      transposed_kernel.launch(
          {part.key_heads, key_tiles, part.samples},
          {.in = {own_part(query, part, p.group), own_part(key, part, 1), own_part(value, part, 1),
                  own_part(bias, part, p.group), as_launched(own_visits)},
           .grad_out = own_part(call.incoming.grad_out, part, p.group),
           .shift = rows.shift,
           .delta = rows.delta,
           .grad_key = of_key ? own_part(OptionalTensor(call.grads.key), part, 1) : std::nullopt,
           .grad_value = of_value ? own_part(OptionalTensor(call.grads.value), part, 1) : std::nullopt,
           .sums = of_query ? rows.sums : std::nullopt,
           .rule = as_launched(rule),
           .more = part.first > 0,
           .tile = tile});
  }
  if (rows.sums)
    rounded_kernel.launch({ceil_div(p.rows, first.rows), part.key_heads * part.count, part.samples},
                          *rows.sums, own_part(call.grads.query, part, p.group), rule.members,
                          options_of_rows(rule), first.rows, first.depth);
}

// The gradients of key and value, and that of query where it may be added up in no fixed order, in parts that
// are busy enough; returns whether it was.
bool run_transposed(const Backward& call, OptionalTensor bias, bool groups,
                    const std::optional<MaskSummary>& summary, Problem p, Limits limits) {
  std::vector<Pass> passes = transposed_passes(call, groups, p);
  const TileSize& tile = passes[0].tile;
  if (groups) {
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
    run_part(call, bias, groups, p, passes, part, of_sums.has_value());
  }
  return of_sums.has_value();
}

}  // namespace

void run_backward(const Backward& given, const Request& request, const Packed* packed, const HostText* text) {
  const Problem p(given.operands, request, packed, text);
  const GroupOperands read(given.operands, given.incoming.grad_out, given.bias, given.grad_bias.defined(), p);
  const OptionalTensor scores_bias = whole_bias(read.bias(), p);
  const Backward call{{read.grad_out(), given.incoming.grad_lse},
                      read.operands(),
                      read.bias(),
                      given.saved,
                      given.grads,
                      given.grad_bias,
                      given.grad_sinks,
                      given.grad_operands};
  const auto& [query, key, value] = call.operands;
  const auto& [out, top, weight, residual] = call.saved;
  const bool for_keys = call.grads.key.defined() || call.grads.value.defined();
  const int64_t heads = p.batch * p.key_heads, at_once = is_small(query) ? heads_at_once(query, p) : heads;
  // Derivatives of it are derived from kernels that write each number once.
  const bool recorded = is_recorded();
  const bool one_pass =
      for_keys && call.grads.query.defined() && query.is_cpu() && at_once >= enough_heads && !recorded;
  const TileSize tile = backward_tile_size(query, p.depth, one_pass ? 64 : 128, p.beside(call.bias));
  const int64_t row_tiles = ceil_div(p.rows, tile.rows), key_tiles = ceil_div(p.keys, tile.cols);
  const bool groups = gradients_by_groups(call, p);
  const bool transposed = for_keys && !recorded && takes_transposed(call, groups, p);
  std::optional<MaskSummary> summary;
  const bool numbers = groups && call.bias && has_numbers(*call.bias, call.grad_bias.defined(), p);
  if (call.bias && !recorded && !numbers && is_summed_up(*call.bias, p, tile))
    summary =
        summary_of(*call.bias, p,
                   transposed && has_transposed_bits(*call.bias, groups, p) ? BitsOf::keys : BitsOf::nothing);
  Limits limits = split_limits;
  limits.bytes -= read.bytes();
  const bool for_query = !(transposed && run_transposed(call, scores_bias, groups, summary, p, limits)) &&
                         call.grads.query.defined() && !one_pass;
  if (summary) summary->drop_bits();
  const Tensor delta = at::empty(top.sizes(), top.options());
  const bool bias_tiles = call.grad_bias.defined() && takes_bias_tiles(call, groups, p);
  const bool for_bias = call.grad_bias.defined() && !bias_tiles;
  const auto options_of_delta = options_without_text(p.rule);
  const bool is_empty = p.batch * p.heads * p.rows * p.keys == 0,
             for_operands = !is_empty && !call.grad_operands.empty();
  if (is_empty)
    for (const Tensor& grad : call.grad_operands) grad.zero_();
  if (delta.numel() && (!transposed || for_query || for_bias || for_operands || call.grad_sinks.defined()))
    delta_kernel.launch({row_tiles, p.heads, p.batch},
                        {call.incoming.grad_out, out, if_any(residual), call.incoming.grad_lse}, delta,
                        as_launched(options_of_delta), tile.rows, static_cast<int>(most_depth));

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
  if ((for_query || for_operands) && delta.numel()) {
    OwnTiles own{incoming(), p.rule, query_tile(groups, p, tile)};
    if (summary && groups && has_bits(*call.bias, p)) {
      own.from.in.visits =
          summary_of(*call.bias, p, BitsOf::queries).keys_of_queries(own.tile, p.batch, p.heads);
      hide_in_bits(own.from.in.bias, own.rule);
    } else if (summary) {
      own.from.in.visits = summary->keys_of_queries(own.tile, p.batch, p.heads);
    }
    if (for_query)
      query_kernel.launch(grid_of(query, ceil_div(p.rows, own.tile.rows), p.heads, p.batch),
                          {.from = as_launched(own.from),
                           .grad_query = call.grads.query,
                           .rule = as_launched(own.rule),
                           .tile = own.tile,
                           .operand = operand,
                           .heads_first = heads_first(query)});
    if (for_operands) run_operand_gradients(call.grad_operands, p, own, {incoming(), p.rule, tile}, summary);
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
