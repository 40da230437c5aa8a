// The launches of few queries over many keys.
#include "few_queries.h"

#include "../common/tuning.h"
#include "bias.h"
#include "tile_choice.h"

namespace tile::attention {
namespace {

Kernel decode_kernel("attention_decode", decode);
Kernel combine_kernel("attention_decode_combine", decode_combine);

// The tile, and true if it has keys of several pages: its rows are then gathered. In 16 bits a GPU copies
// such rows at once; otherwise pages of a multiple of 16 keys are loaded one by one, as whole tiles.
struct DecodeTile {
  TileSize size;
  bool gathers;
};
DecodeTile decode_tile(const Tensor& query, int64_t rows, int64_t depth, int64_t page) {
  const bool wide = query.scalar_type() == at::kDouble, small = query.element_size() == 2;
  const int extent = head_columns(depth);
  int cols = query.is_cpu() ? 128 : wide || extent > 128 ? 32 : 64;
  const bool gathers = page % (small && !query.is_cpu() ? cols : 16) != 0;
  while (!gathers && page % cols != 0) cols /= 2;
  return {{rows <= 16 ? 16 : wide && extent > 128 ? 16 : 32, cols, extent}, gathers};
}

// The keys of all pages of a cache as rows of one array [key heads, rows, head dim]: a page begins `apart`
// rows behind the one before it.
struct CacheRows {
  ArrayArgument array;
  int64_t apart;
};
std::optional<CacheRows> rows_of(const Tensor& cache) {
  const int64_t pages = cache.size(0), page = cache.size(2), from_page = pages > 1 ? cache.stride(0) : 0,
                from_key = page > 1 ? cache.stride(2) : std::max<int64_t>(from_page, 1);
  if (from_key == 0 || from_page % from_key != 0) return std::nullopt;
  CacheRows rows{to_array_argument(cache), from_page / from_key};
  ArrayArgument& array = rows.array;
  array.rank = 3;
  array.sizes[0] = cache.size(1), array.strides[0] = cache.stride(1);
  array.sizes[1] = pages ? (pages - 1) * rows.apart + page : 0, array.strides[1] = from_key;
  array.sizes[2] = cache.size(3), array.strides[2] = cache.stride(3);
  return rows;
}
// The fewest parts whose blocks leave the fewest places on the multiprocessors empty, when they run in turns.
int64_t even_parts(int64_t blocks) {
  const auto turns = [&](int64_t parts) { return ceil_div(parts * blocks, tuning::gpu_decode_at_once); };
  int64_t best = 1;
  for (int64_t parts = 2; parts <= ceil_div(tuning::gpu_decode_blocks, blocks); ++parts)
    if (parts * turns(best) > best * turns(parts)) best = parts;
  return best;
}
// Blocks that share a head's keys: enough for every multiprocessor, but with some tiles each, and none
// without a tile of a full cache.
int64_t splits(const Tensor& query, int64_t batch, int64_t blocks, int64_t key_tiles) {
  if (key_tiles == 0 || blocks == 0) return 1;
  const auto most = [&](int64_t least_tiles) { return std::max<int64_t>(1, key_tiles / least_tiles); };
  if (query.is_cpu())
    return std::min(ceil_div(tuning::cpu_decode_blocks, blocks), most(tuning::cpu_decode_tiles));
  const int64_t wanted = batch > 1 ? ceil_div(tuning::gpu_decode_blocks, blocks) : even_parts(blocks),
                once = std::max<int64_t>(1, tuning::gpu_decode_at_once / blocks),
                parts = std::max(std::min(wanted, most(tuning::gpu_decode_tiles)),
                                 std::min(once, most(tuning::gpu_decode_fewest_tiles)));
  return ceil_div(key_tiles, ceil_div(key_tiles, parts));
}

// A block puts parts of some rows together at once, in about as many elements for any number of parts. Few
// sizes, because each is another kernel.
CombineSize combine_size(int64_t parts, int depth) {
  const int splits = parts <= 4 ? 4 : parts <= 16 ? 16 : std::min(64, 8192 / depth);
  return {32 / std::min(splits, 32), splits, depth};
}

// The bias as the kernel reads it: rows that are the same are read once. Only where heads have biases of
// their own and memory has them in another order, they are copied.
DecodeBias<Tensor> bias_of(const Tensor& bias, int64_t key_heads, int64_t group) {
  const int64_t queries = bias.size(2);
  const bool one_query = queries == 1 || bias.stride(2) == 0, same_heads = bias.size(1) == 1;
  if (!same_heads && group > 1)
    return {bias.reshape({bias.size(0), key_heads, group * queries, bias.size(3)}), BiasRows::all};
  if (one_query) return {bias.narrow(2, 0, 1), BiasRows::one};
  return {bias, group > 1 ? BiasRows::queries : BiasRows::all};
}

}  // namespace

void launch_few_queries(FewQueries call, const Tensor& out, const Tensor& lse) {
  const Tensor& given_query = call.of.query;
  Tensor key = call.of.key, value = call.of.value;
  auto& options = call.options;
  const OptionalTensor& table = options.table;
  const int64_t batch = given_query.size(0), heads = given_query.size(1), queries = given_query.size(2),
                page = key.size(2), key_heads = key.size(1), most = table ? table->size(1) * page : page;
  const Tensor query = joined(given_query, key_heads) ? given_query : given_query.contiguous();
  const bool direct = joined(out, key_heads).has_value();
  const Tensor result = direct ? out : at::empty(out.sizes(), out.options());
  const int64_t rows = heads / key_heads * queries, depth = std::max(query.size(3), value.size(3));
  const auto [tile, gathers] = decode_tile(query, rows, depth, table ? page : 0);
  const int64_t row_tiles = ceil_div(rows, tile.rows),
                parts = splits(query, batch, row_tiles * key_heads * batch, ceil_div(most, tile.cols));

  std::optional<CacheRows> key_rows, value_rows;
  if (table && !gathers) options.page_tiles = static_cast<int>(page / tile.cols);
  if (gathers) {
    // Without a number of rows between pages, as in a part of another tensor, they are copied.
    key_rows = rows_of(key), value_rows = rows_of(value);
    if (!key_rows) key_rows = rows_of(key = key.contiguous());
    if (!value_rows) value_rows = rows_of(value = value.contiguous());
    options.page_rows = {static_cast<int>(key.size(0)), static_cast<int>(key_rows->apart),
                         static_cast<int>(value_rows->apart), static_cast<int>(page)};
  }

  std::optional<PartialResults<Tensor>> partials;
  if (parts > 1) {
    const Tensor tops = at::empty({batch, key_heads, rows, parts}, lse.options());
    partials = {at::empty({batch, key_heads, rows, parts, value.size(3)}, lse.options()), tops,
                result_like(tops)};
  }
  const auto of_several = [](int64_t number) {
    return number > 1 ? std::optional<int>(static_cast<int>(number)) : std::nullopt;
  };
  std::optional<DecodeBias<Tensor>> bias;
  if (call.bias) bias = bias_of(*call.bias, key_heads, heads / key_heads);
  const ArrayArgument outputs = *joined(result, key_heads);
  const Tensor logs = lse.view({batch, key_heads, rows});
  const DType dtype = to_dtype(query.scalar_type());
  decode_kernel.launch({parts, row_tiles * key_heads, batch},
                       {.query = *joined(query, key_heads),
                        .key = key_rows ? key_rows->array : to_array_argument(key),
                        .value = value_rows ? value_rows->array : to_array_argument(value),
                        .lengths = call.lengths,
                        .bias = as_launched(bias),
                        .out = outputs,
                        .lse = logs,
                        .partials = as_launched(partials),
                        .scale = call.scale,
                        .row_tiles = of_several(row_tiles),
                        .queries = of_several(queries),
                        .options = as_launched(options),
                        .tile = tile,
                        .part = query.is_cpu() || dtype != f32 ? tile.depth : tile.depth / 4,
                        .operand = operand_dtype(query)});
  if (partials) {
    const CombineSize size = combine_size(parts, tile.depth);
    combine_kernel.launch({ceil_div(rows, size.rows), key_heads, batch}, *partials, options.sinks, outputs,
                          logs, static_cast<int>(queries), size);
  }
  if (!direct) out.copy_(result);
}

bool run_few_queries(const Operands& of, const OptionalTensor& bias, const Problem& p,
                     const Results& results) {
  constexpr int64_t most_rows = 32;  // of the tallest tile
  const auto& asked = p.rule.options;
  if (p.group * p.rows > most_rows || p.all_rows || asked.dropout || asked.text || results.top ||
      results.weight || results.residual || is_recorded() || is_differentiated())
    return false;
  FewQueries call{of, std::nullopt, whole_bias(bias, p), p.rule.scale, {}};
  auto& options = call.options;
  options.first = asked.first;
  if (p.rule.offset < p.keys - 1) options.offset = p.rule.offset;  // the first query sees the fewest keys
  options.softcap = asked.softcap;
  options.slopes = asked.slopes;
  options.diagonal = asked.diagonal;
  options.sinks = asked.sinks;
  launch_few_queries(std::move(call), results.out, results.lse);
  return true;
}

}  // namespace tile::attention
