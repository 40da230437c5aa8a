// Takes a call's lengths, turns its options to offsets from a query's own key, and finds its products' dtype.
#include "host_problem.h"

namespace tile::attention {

Problem::Problem(const Operands& of, const Request& request, const Packed* packed, const HostText* text)
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
  if (text) options.text = *text;
  if (!packed) return;
  options.query_starts = packed->query_starts;
  options.key_starts = packed->key_starts;
  options.from_last = from_last && (after >= 0 || before >= 0 || request.alibi_slopes);
  all_rows = of.query.size(2);
}

std::optional<ArrayArgument> joined(const Tensor& query, int64_t key_heads) {
  const int64_t group = query.size(1) / key_heads, queries = query.size(2);
  if (group > 1 && queries > 1 && query.stride(1) != queries * query.stride(2)) return std::nullopt;
  ArrayArgument array = to_array_argument(query);
  array.sizes[1] = key_heads;
  array.sizes[2] = group * queries;
  array.strides[1] = group * query.stride(1);
  array.strides[2] = queries > 1 ? query.stride(2) : query.stride(1);
  return array;
}

DType operand_dtype(const Tensor& query) {
  const DType dtype = to_dtype(query.scalar_type());
  return multiplies_as_it_is(to_array_argument(query)) ? dtype : sum_dtype(dtype);
}

}  // namespace tile::attention
