// The forward's launch.
#include "few_queries.h"
#include "few_rows.h"
#include "group_operands.h"
#include "tile_choice.h"

namespace tile::attention {
namespace {

Kernel forward_kernel("attention_forward", forward);

}  // namespace

void run_forward(const Operands& given, const OptionalTensor& given_bias, const Request& request,
                 const Results& results, const Packed* packed, const HostText* text) {
  Problem p(given, request, packed, text);
  const Tensor& lse = results.lse;
  if (lse.numel() == 0) return;
  if (given.query.is_cpu() ? run_few_rows(given, whole_bias(given_bias, p), p, results)
                           : run_few_queries(given, given_bias, p, results))
    return;
  const bool wants_gradient = given_bias && given_bias->requires_grad();
  const GroupOperands read(given, std::nullopt, given_bias, wants_gradient, p);
  const Operands operands = read.operands();
  const OptionalTensor& bias = read.bias();
  const Tensor& query = operands.query;
  const bool groups =
      runs_by_groups(operands, bias, p) && !(is_differentiated() && gpu_depth(query, p.depth) > 128);
  const bool numbers = groups && bias && has_numbers(*bias, wants_gradient, p);
  const TileSize tile = groups ? group_tile_size(query, p.usual_rows(), p.depth, bias, numbers,
                                                 p.rule.options.dropout || p.reads_tables())
                               : forward_tile_size(query, p.rows, p.depth, p.beside(bias));
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

}  // namespace tile::attention
