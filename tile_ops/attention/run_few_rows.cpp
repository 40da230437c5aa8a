// The launch of few queries on a CPU.
#include "few_rows.h"
#include "tile_choice.h"

namespace tile::attention {
namespace {

Kernel few_rows_kernel("attention_few_rows", forward_few_rows);

// As many rows as products read keys in place for. forward() multiplies one more than a head has, of padding.
constexpr int64_t most_rows = 8, most_queries = most_rows - 1;

int power_of_2(int64_t least) {
  int power = 1;
  while (power < least) power *= 2;
  return power;
}

// The key heads of a block: as many as leave each thread a block.
int heads_of_block(int64_t key_heads, int64_t batch) {
  int heads = 8;
  while (heads > 1 && (key_heads % heads != 0 || key_heads / heads * batch < launch_threads())) heads /= 2;
  return heads;
}

}  // namespace

bool run_few_rows(const Operands& of, const OptionalTensor& bias, const Problem& p, const Results& results) {
  const int64_t rows = p.group * p.rows;
  // Packed samples, which forward() computes, have the bits of samples alone.
  if (!sums_rows_alike()) return false;
  if (p.all_rows || p.rule.options.dropout || p.rule.options.text || rows > most_rows ||
      p.rows > most_queries)
    return false;
  const OptionalTensor of_heads = bias && bias->size(1) > 1 ? bias
                                  : bias ? OptionalTensor(bias->expand({-1, p.group, -1, -1}))
                                         : bias;
  const bool own_bias = bias && bias->size(1) > 1;
  const int64_t bias_heads = own_bias ? p.key_heads : 1;
  const OptionalTensor residual = if_any(results.residual);
  const auto query = joined(of.query, p.key_heads), out = joined(results.out, p.key_heads);
  std::optional<ArrayArgument> rest, joined_bias;
  if (residual) rest = joined(*residual, p.key_heads);
  if (of_heads) joined_bias = joined(*of_heads, bias_heads);
  if (!query || !out || (residual && !rest) || (of_heads && !joined_bias)) return false;

  const std::vector<int64_t> row_sizes{p.batch, p.key_heads, rows};
  const Tensor lse = results.lse.view(row_sizes);
  const auto of_rows = [&](const OptionalTensor& given) {
    return given ? OptionalTensor(given->view(row_sizes)) : std::nullopt;
  };
  const int heads = heads_of_block(p.key_heads, p.batch);
  few_rows_kernel.launch({p.key_heads / heads, p.batch},
                         {.in = {*query, of.key, of.value, joined_bias, std::nullopt},
                          .out = *out,
                          .lse = lse,
                          .top = of_rows(results.top),
                          .weight = of_rows(results.weight),
                          .residual = rest,
                          .rule = as_launched(p.rule),
                          .queries = static_cast<int>(p.rows),
                          .heads = heads,
                          .tile = {power_of_2(rows), cpu_keys, head_columns(p.depth)},
                          .operand = operand_dtype(of.query),
                          .negative = p.rule.scale < 0,
                          .own_bias = own_bias});
  return true;
}

}  // namespace tile::attention
