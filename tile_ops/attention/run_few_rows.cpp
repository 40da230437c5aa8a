// The launch of few queries on a CPU.
#include <array>

#include "few_rows.h"
#include "tile_choice.h"

namespace tile::attention {
namespace {

Kernel few_rows_kernel("attention_few_rows", forward_few_rows);

// As many rows as products read keys in place for. forward() multiplies one more than a head has, of padding.
constexpr int most_rows = 8, most_queries = most_rows - 1;

struct BlockOf {
  int heads, rows, columns;
};
// Returns the key heads of a block, and the rows and columns of each. There are few choices, because each is
// another kernel. A tile of one row computes no row of padding. A block of one head is for any number of
// heads and threads.
BlockOf block_of(int64_t key_heads, int64_t batch, int64_t rows, int64_t depth) {
  constexpr int usual = 128;
  if (depth > usual) return {1, most_rows, head_columns(depth)};
  for (const BlockOf of :
       {BlockOf{4, 1, usual}, BlockOf{2, 1, usual}, BlockOf{4, 4, usual}, BlockOf{4, most_rows, usual}})
    if (rows <= of.rows && key_heads % of.heads == 0 && key_heads / of.heads * batch >= launch_threads())
      return of;
  return {1, most_rows, usual};
}

// The first `count` of the numbers 0, 1, ...
ArrayArgument numbers(int64_t count) {
  static std::array<int32_t, most_rows> all{0, 1, 2, 3, 4, 5, 6, 7};
  ArrayArgument array{.data = all.data(), .dtype = DType::i32, .rank = 1};
  array.sizes[0] = count;
  array.strides[0] = 1;
  return array;
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
  const BlockOf block = block_of(p.key_heads, p.batch, rows, p.depth);
  few_rows_kernel.launch({p.key_heads / block.heads, p.batch},
                         {.in = {*query, of.key, of.value, joined_bias, std::nullopt},
                          .out = *out,
                          .lse = lse,
                          .top = of_rows(results.top),
                          .weight = of_rows(results.weight),
                          .residual = rest,
                          .rule = as_launched(p.rule),
                          .queries = static_cast<int>(p.rows),
                          .heads = block.heads,
                          .tile = {block.rows, cpu_keys, block.columns},
                          .operand = operand_dtype(of.query),
                          .negative = p.rule.scale < 0,
                          .own_bias = own_bias,
                          .numbers = numbers(rows)});
  return true;
}

}  // namespace tile::attention
