// Attention for generating text: a few queries of each sequence over its cache of keys and values.
#include "few_queries.h"

namespace tile::attention {
namespace {

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

void run_decode(const Given& given, const Tensor& out, const Tensor& lse) {
  const auto& [query, key, value] = given.of;
  const Tensor& lengths = given.lengths;
  const OptionalTensor& table = given.table;
  if (lengths.is_cpu()) {
    const int64_t most = table ? table->size(1) * key.size(2) : key.size(2);
    lengths.scalar_type() == at::kInt ? check_values<int>(lengths, most)
                                      : check_values<int64_t>(lengths, most);
  }
  if (lse.numel() == 0) return;
  FewQueries call{given.of, lengths, std::nullopt, given.scale.value_or(usual_scale(query.size(3))), {}};
  auto& options = call.options;
  options.table = table;
  if (given.window[0] >= 0) options.before = static_cast<int>(std::min<int64_t>(given.window[0], 1 << 29));
  if (given.softcap != 0) options.softcap = given.softcap;
  if (given.alibi_slopes) options.slopes = given.alibi_slopes->expand({query.size(0), query.size(1)});
  options.sinks = given.sinks;
  launch_few_queries(std::move(call), out, lse);
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
