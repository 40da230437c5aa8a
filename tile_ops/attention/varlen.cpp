// Attention over packed samples of different lengths, and its gradient.
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

// Starts of the samples and the longest lengths, as the operators take them.
struct Samples {
  const Tensor &query_starts, &key_starts;
  const c10::SymInt &rows, &keys;
};

void check_packed(const Operands& of, const Samples& samples, const Request& request) {
  const auto& [query, key, value] = of;
  const Tensor &query_starts = samples.query_starts, &key_starts = samples.key_starts;
  constexpr const char* shape = "[all rows, heads, head_dim]";
  check_tensor(query, "query", 3, shape);
  check_tensor(key, "key", 3, shape);
  check_tensor(value, "value", 3, shape);
  check_dtypes(of);
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
Packed packed_samples(const Operands& of, const Samples& samples) {
  const int64_t rows = samples.rows.expect_int(), keys = samples.keys.expect_int();
  check_lengths(samples.query_starts, "cu_seqlens_q", of.query.size(0), rows, "max_seqlen_q");
  check_lengths(samples.key_starts, "cu_seqlens_k", of.key.size(0), keys, "max_seqlen_k");
  return {samples.query_starts, samples.key_starts, std::min(rows, of.query.size(0)),
          std::min(keys, of.key.size(0))};
}

const auto attention_varlen =
    op("tile::attention_varlen(Tensor query, Tensor key, Tensor value, Tensor cu_seqlens_q, Tensor "
       "cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, *, bool is_causal=False, str "
       "causal_align=\"bottom_right\", float? scale=None, int[2] window=[-1, -1], float softcap=0.0, Tensor? "
       "alibi_slopes=None, Tensor? sinks=None, float dropout_p=0.0, Tensor? seed=None) "
       "-> (Tensor out, Tensor lse)")
        .outputs([](const Operands& of, const Samples& samples, const Request& request) {
          check_packed(of, samples, request);
          std::vector<c10::SymInt> sizes = of.query.sym_sizes().vec();
          Tensor lse = at::empty_symint({sizes[1], sizes[0]}, sum_options(of.query));
          sizes[2] = of.value.sym_size(2);
          return std::tuple(empty_in_order(of.query, sizes), std::move(lse));
        })
        .saves("Tensor top, Tensor weight, Tensor residual")
        .saved_outputs(
            [](const Operands&, const Samples&, const Request&, const Tensor& out, const Tensor& lse) {
              std::vector<c10::SymInt> sizes = out.sym_sizes().vec();
              if (out.scalar_type() == lse.scalar_type()) sizes[2] = 0;
              return std::tuple(result_like(lse), result_like(lse), empty_in_order(out, sizes));
            })
        .run([](const Operands& of, const Samples& samples, const Request& request, const Results& results) {
          const Packed packed_as = packed_samples(of, samples);
          run_forward({packed(of.query), packed(of.key), packed(of.value)}, std::nullopt, request,
                      {packed(results.out), of_rows(results.lse), of_rows(results.top),
                       of_rows(results.weight), packed(results.residual)},
                      &packed_as);
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
        .outputs([](const GradientsOfResults& incoming, const Operands& of, const Samples& samples,
                    const Saved& saved, const Request& request, std::array<bool, 4> mask) {
          const auto& [query, key, value] = of;
          const OptionalTensor& sinks = request.sinks;
          check_packed(of, samples, request);
          const c10::SymInt rows[] = {query.sym_size(1), query.sym_size(0)};
          check_saved(query, {rows[1], rows[0], value.sym_size(2)}, rows, saved);
          check_gradient(incoming.grad_out, saved.out, "out");
          check_gradient(incoming.grad_lse, saved.top, "lse");
          if (mask[3] && !sinks)
            fail(ErrorKind::value,
                 "output_mask asks for the gradient of 'sinks', which is not given; clear its bit");
          const auto wanted = [&](bool want, const Tensor& of) {
            return want ? empty_in_order(of) : Tensor();
          };
          return std::tuple(wanted(mask[0], query), wanted(mask[1], key), wanted(mask[2], value),
                            mask[3] ? empty_in_order(*sinks) : Tensor());
        })
        .run([](const GradientsOfResults& incoming, const Operands& of, const Samples& samples,
                const Saved& saved, const Request& request, const std::array<bool, 4>&, const Operands& grads,
                Tensor& grad_sinks) {
          const Packed packed_as = packed_samples(of, samples);
          run_backward(
              {{packed(incoming.grad_out), of_rows(incoming.grad_lse)},
               {packed(of.query), packed(of.key), packed(of.value)},
               std::nullopt,
               {packed(saved.out), of_rows(saved.top), of_rows(saved.weight), packed(saved.residual)},
               {if_wanted(grads.query), if_wanted(grads.key), if_wanted(grads.value)},
               Tensor(),
               grad_sinks},
              request, &packed_as);
        });

}  // namespace
}  // namespace tile::attention
