// Attention over samples of their own lengths, packed one behind the other, and its gradient.
#include "problem.h"

namespace tile::attention {
namespace {

// [all, heads, ...] as the [1, heads, all, ...] of the kernels.
Tensor packed(const Tensor& tensor) { return tensor.transpose(0, 1).unsqueeze(0); }
OptionalTensor packed(const OptionalTensor& tensor) {
  return tensor ? OptionalTensor(packed(*tensor)) : std::nullopt;
}
// The same of [heads, all], and of a gradient that may not be wanted.
Tensor of_rows(const Tensor& tensor) { return tensor.unsqueeze(0); }
OptionalTensor of_rows(const OptionalTensor& tensor) {
  return tensor ? OptionalTensor(of_rows(*tensor)) : std::nullopt;
}
Tensor if_wanted(const Tensor& tensor) { return tensor.defined() ? packed(tensor) : tensor; }

void check_starts(const Tensor& starts, const char* name) {
  check_integers(starts, name);
  if (starts.dim() != 1 || starts.sym_size(0) < 1)
    fail(ErrorKind::value, "'", name, "' has shape ", starts.sym_sizes(),
         "; it must be [sequences + 1]: where each begins, and the end of the last");
}

void check_packed(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& query_starts,
                  const Tensor& key_starts, const Request& request) {
  constexpr const char* shape = "[all rows, heads, head_dim]";
  check_tensor(query, "query", 3, shape);
  check_tensor(key, "key", 3, shape);
  check_tensor(value, "value", 3, shape);
  check_dtypes(query, key, value);
  if (key.sym_size(0) != value.sym_size(0) || key.sym_size(1) != value.sym_size(1))
    fail(ErrorKind::value, "'key' is ", key.sym_sizes(), " but 'value' ", value.sym_sizes(),
         "; their rows and heads must be equal");
  if (query.sym_size(2) != key.sym_size(2))
    fail(ErrorKind::value, "'query' is ", query.sym_sizes(), " but 'key' ", key.sym_sizes(),
         "; their head_dim must be equal");
  check_heads(query.sym_size(1), key.sym_size(1));
  check_depth(query.sym_size(2));
  check_depth(value.sym_size(2));
  check_starts(query_starts, "cu_seqlens_q");
  check_starts(key_starts, "cu_seqlens_k");
  if (query_starts.sym_size(0) != key_starts.sym_size(0))
    fail(ErrorKind::value, "'cu_seqlens_q' has ", query_starts.sym_size(0), " entries and 'cu_seqlens_k' ",
         key_starts.sym_size(0), "; both must have one more than there are sequences");
  check_request(request, query_starts.sym_size(0) - 1, query.sym_size(1), query.scalar_type());
}

// On the CPU the values are at hand; a GPU's kernel asserts that they fit.
template <class T>
void check_lengths(const Tensor& starts, const char* name, int64_t all, int64_t longest, const char* most) {
  const auto at = starts.accessor<T, 1>();
  const int64_t last = starts.size(0) - 1;
  if (at[0] != 0 || at[last] != all)
    fail(ErrorKind::value, "'", name, "' runs from ", at[0], " to ", at[last],
         "; it must begin with 0 and end with the number of rows, ", all);
  for (int64_t i = 0; i < last; ++i) {
    const int64_t length = at[i + 1] - at[i];
    if (length < 0)
      fail(ErrorKind::value, "'", name, "' falls from ", at[i], " to ", at[i + 1], "; it must not fall");
    if (length > longest)
      fail(ErrorKind::value, "sequence ", i, " of '", name, "' has ", length, " rows and ", most, " is ",
           longest, "; give the length of the longest");
  }
}
void check_lengths(const Tensor& starts, const char* name, int64_t all, int64_t longest, const char* most) {
  if (!starts.is_cpu()) return;
  starts.scalar_type() == at::kInt ? check_lengths<int>(starts, name, all, longest, most)
                                   : check_lengths<int64_t>(starts, name, all, longest, most);
}

// No sequence is longer than all rows: what a kernel's 32 bits do not hold is as good as that.
Packed packed_samples(const Tensor& query, const Tensor& key, const Tensor& query_starts,
                      const Tensor& key_starts, int64_t rows, int64_t keys) {
  return {query_starts, key_starts, std::min(rows, query.size(0)), std::min(keys, key.size(0))};
}

const auto attention_varlen =
    op("tile::attention_varlen(Tensor query, Tensor key, Tensor value, Tensor cu_seqlens_q, Tensor "
       "cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, *, bool is_causal=False, str "
       "causal_align=\"bottom_right\", float? scale=None, int[2] window=[-1, -1], float softcap=0.0, Tensor? "
       "alibi_slopes=None, Tensor? sinks=None, float dropout_p=0.0, Tensor? seed=None) "
       "-> (Tensor out, Tensor lse)")
        .outputs([](const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& query_starts,
                    const Tensor& key_starts, const c10::SymInt&, const c10::SymInt&, bool is_causal,
                    const std::string& causal_align, std::optional<double> scale, at::IntArrayRef window,
                    double softcap, const OptionalTensor& alibi_slopes, const OptionalTensor& sinks,
                    double dropout_p, const OptionalTensor& seed) {
          check_packed(
              query, key, value, query_starts, key_starts,
              {is_causal, causal_align, scale, window, softcap, alibi_slopes, sinks, dropout_p, seed});
          std::vector<c10::SymInt> sizes = query.sym_sizes().vec();
          Tensor lse = at::empty_symint({sizes[1], sizes[0]}, sum_options(query));
          sizes[2] = value.sym_size(2);
          return std::tuple(empty_in_order(query, sizes), std::move(lse));
        })
        .saves("Tensor top, Tensor weight, Tensor residual")
        .saved_outputs([](const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                          const c10::SymInt&, const c10::SymInt&, bool, const std::string&,
                          std::optional<double>, at::IntArrayRef, double, const OptionalTensor&,
                          const OptionalTensor&, double, const OptionalTensor&, const Tensor& out,
                          const Tensor& lse) {
          std::vector<c10::SymInt> sizes = out.sym_sizes().vec();
          if (out.scalar_type() == lse.scalar_type()) sizes[2] = 0;
          return std::tuple(result_like(lse), result_like(lse), empty_in_order(out, sizes));
        })
        .run([](const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& query_starts,
                const Tensor& key_starts, int64_t rows, int64_t keys, bool is_causal,
                const std::string& causal_align, std::optional<double> scale, at::IntArrayRef window,
                double softcap, const OptionalTensor& alibi_slopes, const OptionalTensor& sinks,
                double dropout_p, const OptionalTensor& seed, Tensor& out, Tensor& lse,
                const OptionalTensor& top, const OptionalTensor& weight, const OptionalTensor& residual) {
          check_lengths(query_starts, "cu_seqlens_q", query.size(0), rows, "max_seqlen_q");
          check_lengths(key_starts, "cu_seqlens_k", key.size(0), keys, "max_seqlen_k");
          const Packed samples = packed_samples(query, key, query_starts, key_starts, rows, keys);
          run_forward({packed(query), packed(key), packed(value), std::nullopt, packed(out), of_rows(lse),
                       of_rows(top), of_rows(weight), packed(residual)},
                      {is_causal, causal_align, scale, window, softcap, alibi_slopes, sinks, dropout_p, seed},
                      &samples);
        })
        .autocast("lower")
        .grad("tile::attention_varlen_backward");

const auto attention_varlen_backward =
    op("tile::attention_varlen_backward(Tensor? grad_out, Tensor? grad_lse, Tensor query, Tensor key, Tensor "
       "value, Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, Tensor "
       "out, "
       "Tensor top, Tensor weight, Tensor residual, *, bool is_causal, str causal_align, float? scale, "
       "int[2] "
       "window, float softcap, Tensor? alibi_slopes, Tensor? sinks, float dropout_p, Tensor? seed, bool[4] "
       "output_mask) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor grad_sinks)")
        .outputs([](const OptionalTensor& grad_out, const OptionalTensor& grad_lse, const Tensor& query,
                    const Tensor& key, const Tensor& value, const Tensor& query_starts,
                    const Tensor& key_starts, const c10::SymInt&, const c10::SymInt&, const Tensor& out,
                    const Tensor& top, const Tensor& weight, const Tensor& residual, bool is_causal,
                    const std::string& causal_align, std::optional<double> scale, at::IntArrayRef window,
                    double softcap, const OptionalTensor& alibi_slopes, const OptionalTensor& sinks,
                    double dropout_p, const OptionalTensor& seed, std::array<bool, 4> mask) {
          check_packed(
              query, key, value, query_starts, key_starts,
              {is_causal, causal_align, scale, window, softcap, alibi_slopes, sinks, dropout_p, seed});
          const c10::SymInt rows[] = {query.sym_size(1), query.sym_size(0)};
          check_saved(query, {rows[1], rows[0], value.sym_size(2)}, rows, {out, top, weight, residual});
          check_gradient(grad_out, out, "out");
          check_gradient(grad_lse, top, "lse");
          if (mask[3] && !sinks)
            fail(ErrorKind::value,
                 "output_mask asks for the gradient of 'sinks', which is not given; clear its bit");
          const auto wanted = [&](bool want, const Tensor& of) {
            return want ? empty_in_order(of) : Tensor();
          };
          return std::tuple(wanted(mask[0], query), wanted(mask[1], key), wanted(mask[2], value),
                            mask[3] ? empty_in_order(*sinks) : Tensor());
        })
        .run([](const OptionalTensor& grad_out, const OptionalTensor& grad_lse, const Tensor& query,
                const Tensor& key, const Tensor& value, const Tensor& query_starts, const Tensor& key_starts,
                int64_t rows, int64_t keys, const Tensor& out, const Tensor& top, const Tensor& weight,
                const Tensor& residual, bool is_causal, const std::string& causal_align,
                std::optional<double> scale, at::IntArrayRef window, double softcap,
                const OptionalTensor& alibi_slopes, const OptionalTensor& sinks, double dropout_p,
                const OptionalTensor& seed, const std::array<bool, 4>&, Tensor& grad_query, Tensor& grad_key,
                Tensor& grad_value, Tensor& grad_sinks) {
          check_lengths(query_starts, "cu_seqlens_q", query.size(0), rows, "max_seqlen_q");
          check_lengths(key_starts, "cu_seqlens_k", key.size(0), keys, "max_seqlen_k");
          const Packed samples = packed_samples(query, key, query_starts, key_starts, rows, keys);
          run_backward(
              {packed(grad_out), of_rows(grad_lse), packed(query), packed(key), packed(value), std::nullopt,
               packed(out), of_rows(top), of_rows(weight), packed(residual), if_wanted(grad_query),
               if_wanted(grad_key), if_wanted(grad_value), Tensor(), grad_sinks},
              {is_causal, causal_align, scale, window, softcap, alibi_slopes, sinks, dropout_p, seed},
              &samples);
        });

}  // namespace
}  // namespace tile::attention
