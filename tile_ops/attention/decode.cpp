// Attention for generating text: a few queries of each sequence over its cache of keys and values.
#include "decode_kernels.h"

#include "../common/tuning.h"
#include "tile_choice.h"

namespace tile::attention {
namespace {

Kernel decode_kernel("attention_decode", decode);
Kernel combine_kernel("attention_decode_combine", decode_combine);

// Arguments of the operator, in the order of its schema.
struct Given {
  Operands of;  // key and value: the cache
  const Tensor& lengths;
  const OptionalTensor& table;
  std::optional<double> scale;
  at::IntArrayRef window;
  double softcap;
  const OptionalTensor &alibi_slopes, &sinks;
};

void check_decode(const Given& given) {
  const auto& [query, key, value] = given.of;
  const Tensor& lengths = given.lengths;
  const OptionalTensor& table = given.table;
  const char* shape = table ? "[pages, heads, page size, head_dim]" : "[batch, heads, length, head_dim]";
  check_tensor(query, "query", 4, "[batch, heads, length, head_dim]");
  check_tensor(key, "key_cache", 4, shape);
  check_tensor(value, "value_cache", 4, shape);
  check_dtypes(given.of);
  if (!key.sym_sizes().slice(0, 3).equals(value.sym_sizes().slice(0, 3)))
    fail(ErrorKind::value, "'key_cache' is ", key.sym_sizes(), " but 'value_cache' ", value.sym_sizes(),
         "; only their head_dim may differ");
  if (query.sym_size(3) != key.sym_size(3))
    fail(ErrorKind::value, "'query' is ", query.sym_sizes(), " but 'key_cache' ", key.sym_sizes(),
         "; their head_dim must be equal");
  const c10::SymInt batch = query.sym_size(0);
  check_heads(query.sym_size(1), key.sym_size(1));
  check_depth(query.sym_size(3));
  check_depth(value.sym_size(3));
  check_integers(lengths, "lengths");
  if (lengths.dim() != 1 || lengths.sym_size(0) != batch)
    fail(ErrorKind::value, "'lengths' has shape ", lengths.sym_sizes(), "; it must be [", batch,
         "], the keys of each sequence");
  if (table) {
    check_integers(*table, "block_table");
    if (table->dim() != 2 || table->sym_size(0) != batch)
      fail(ErrorKind::value, "'block_table' has shape ", table->sym_sizes(), "; it must be [", batch,
           ", pages of a sequence]");
  } else if (key.sym_size(0) != batch) {
    fail(ErrorKind::value, "'query' is ", query.sym_sizes(), " but 'key_cache' ", key.sym_sizes(),
         "; their batch must be equal, or give a block_table");
  }
  const OptionalTensor no_seed;
  check_request({true, "bottom_right", given.scale, given.window, given.softcap, given.alibi_slopes,
                 given.sinks, 0, no_seed},
                batch, query.sym_size(1), query.scalar_type());
}

// On the CPU the values are at hand; a GPU's kernel asserts that they fit.
template <class T>
void check_values(const Tensor& lengths, int64_t most) {
  const auto at = lengths.accessor<T, 1>();
  for (int64_t b = 0; b < lengths.size(0); ++b)
    if (at[b] < 0 || at[b] > most)
      fail(ErrorKind::value, "lengths[", b, "] is ", at[b], ", but the cache holds ", most,
           " keys of a sequence");
}

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

void run_decode(const Given& given, const Tensor& out, const Tensor& lse) {
  const Tensor &given_query = given.of.query, &lengths = given.lengths;
  const OptionalTensor& table = given.table;
  Tensor key = given.of.key, value = given.of.value;
  const int64_t batch = given_query.size(0), heads = given_query.size(1), queries = given_query.size(2),
                page = key.size(2), key_heads = key.size(1), most = table ? table->size(1) * page : page;
  if (lengths.is_cpu())
    lengths.scalar_type() == at::kInt ? check_values<int>(lengths, most)
                                      : check_values<int64_t>(lengths, most);
  if (lse.numel() == 0) return;
  const Tensor query = joined(given_query, key_heads) ? given_query : given_query.contiguous();
  const bool direct = joined(out, key_heads).has_value();
  const Tensor result = direct ? out : at::empty(out.sizes(), out.options());
  const int64_t rows = heads / key_heads * queries, depth = std::max(query.size(3), value.size(3));
  const auto [tile, gathers] = decode_tile(query, rows, depth, table ? page : 0);
  const int64_t row_tiles = ceil_div(rows, tile.rows),
                parts = splits(query, batch, row_tiles * key_heads * batch, ceil_div(most, tile.cols));

  DecodeOptionsOf<Tensor, int, double> options;
  options.table = table;
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
  if (given.window[0] >= 0) options.before = static_cast<int>(std::min<int64_t>(given.window[0], 1 << 29));
  if (given.softcap != 0) options.softcap = given.softcap;
  if (given.alibi_slopes) options.slopes = given.alibi_slopes->expand({batch, heads});
  options.sinks = given.sinks;

  std::optional<PartialResults<Tensor>> partials;
  if (parts > 1) {
    const Tensor tops = at::empty({batch, key_heads, rows, parts}, lse.options());
    partials = {at::empty({batch, key_heads, rows, parts, value.size(3)}, lse.options()), tops,
                result_like(tops)};
  }
  const auto of_several = [](int64_t number) {
    return number > 1 ? std::optional<int>(static_cast<int>(number)) : std::nullopt;
  };
  const ArrayArgument outputs = *joined(result, key_heads);
  const Tensor logs = lse.view({batch, key_heads, rows});
  const DType dtype = to_dtype(query.scalar_type());
  decode_kernel.launch({parts, row_tiles * key_heads, batch},
                       {.query = *joined(query, key_heads),
                        .key = key_rows ? key_rows->array : to_array_argument(key),
                        .value = value_rows ? value_rows->array : to_array_argument(value),
                        .lengths = lengths,
                        .out = outputs,
                        .lse = logs,
                        .partials = as_launched(partials),
                        .scale = given.scale.value_or(usual_scale(query.size(3))),
                        .row_tiles = of_several(row_tiles),
                        .queries = of_several(queries),
                        .options = as_launched(options),
                        .tile = tile,
                        .part = query.is_cpu() || dtype != f32 ? tile.depth : tile.depth / 4,
                        .operand = operand_dtype(query)});
  if (partials) {
    const CombineSize size = combine_size(parts, tile.depth);
    combine_kernel.launch({ceil_div(rows, size.rows), key_heads, batch}, *partials, given.sinks, outputs,
                          logs, static_cast<int>(queries), size);
  }
  if (!direct) out.copy_(result);
}

const auto attention_decode =
    op("tile::attention_decode(Tensor query, Tensor key_cache, Tensor value_cache, Tensor lengths, *, "
       "Tensor? "
       "block_table=None, float? scale=None, int[2] window=[-1, -1], float softcap=0.0, Tensor? "
       "alibi_slopes=None, Tensor? sinks=None) -> (Tensor out, Tensor lse)")
        .outputs([](const Given& given) {
          check_decode(given);
          const Tensor& query = given.of.query;
          std::vector<c10::SymInt> sizes = query.sym_sizes().vec();
          Tensor lse = at::empty_symint(c10::SymIntArrayRef(sizes.data(), 3), sum_options(query));
          sizes[3] = given.of.value.sym_size(3);
          return std::tuple(empty_in_order(query, sizes), std::move(lse));
        })
        .run([](const Given& given, Tensor& out, Tensor& lse) { run_decode(given, out, lse); })
        .autocast("lower");

}  // namespace
}  // namespace tile::attention
