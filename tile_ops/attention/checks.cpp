// Checks the arguments of attention.
#include "../common/arguments.h"
#include "problem.h"

namespace tile::attention {

void check_tensor(const Tensor& tensor, const char* name, int64_t rank, const char* shape) {
  if (tensor.dim() != rank)
    fail(ErrorKind::value, "'", name, "' has shape ", tensor.sym_sizes(), "; give it ", rank, " dimensions, ",
         shape);
  const at::ScalarType type = tensor.scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kHalf && type != at::kBFloat16)
    fail(ErrorKind::type, "'", name, "' is ", c10::toString(type),
         "; convert it to Half, BFloat16, Float or Double");
}

void check_dtypes(const Operands& of) {
  const auto& [query, key, value] = of;
  if (key.scalar_type() != query.scalar_type() || value.scalar_type() != query.scalar_type())
    fail(ErrorKind::type, "'query' is ", c10::toString(query.scalar_type()), ", 'key' ",
         c10::toString(key.scalar_type()), " and 'value' ", c10::toString(value.scalar_type()),
         "; convert them to one dtype");
}

void check_integers(const Tensor& tensor, const char* name) {
  if (tensor.scalar_type() != at::kInt && tensor.scalar_type() != at::kLong)
    fail(ErrorKind::type, "'", name, "' is ", c10::toString(tensor.scalar_type()),
         "; convert it to Int or Long");
}

void check_heads(const c10::SymInt& heads, const c10::SymInt& key_heads) {
  if (key_heads == 0 ? heads != 0 : heads % key_heads != 0)
    fail(ErrorKind::value, "'query' has ", heads, " heads but 'key' ", key_heads,
         "; the heads of query must be a multiple of those of key");
}

void check_depth(const c10::SymInt& depth) {
  if (depth > most_depth)
    fail(ErrorKind::unsupported, "head_dim is ", depth, " and the most is ", most_depth,
         "; split it over more heads");
}

void check_inputs(const Operands& of, const OptionalTensor& bias) {
  const auto& [query, key, value] = of;
  constexpr const char* shape = "[batch, heads, length, head_dim]";
  check_tensor(query, "query", 4, shape);
  check_tensor(key, "key", 4, shape);
  check_tensor(value, "value", 4, shape);
  check_dtypes(of);
  if (key.sym_size(0) != value.sym_size(0) || key.sym_size(1) != value.sym_size(1) ||
      key.sym_size(2) != value.sym_size(2))
    fail(ErrorKind::value, "'key' is ", key.sym_sizes(), " but 'value' ", value.sym_sizes(),
         "; their batch, heads and length must be equal");
  if (query.sym_size(0) != key.sym_size(0) || query.sym_size(3) != key.sym_size(3))
    fail(ErrorKind::value, "'query' is ", query.sym_sizes(), " but 'key' ", key.sym_sizes(),
         "; their batch and head_dim must be equal");
  const c10::SymInt heads = query.sym_size(1);
  check_heads(heads, key.sym_size(1));
  check_depth(query.sym_size(3));
  check_depth(value.sym_size(3));
  if (!bias) return;
  if (bias->scalar_type() != at::kBool && !at::isFloatingType(bias->scalar_type()))
    fail(ErrorKind::type, "'attn_bias' is ", c10::toString(bias->scalar_type()),
         "; give a bool mask (True attends) or floats to add to the scores");
  const c10::SymInt scores[] = {query.sym_size(0), heads, query.sym_size(2), key.sym_size(2)};
  bool fits = bias->dim() <= 4;
  for (int64_t i = 1; fits && i <= bias->dim(); ++i)
    fits = bias->sym_size(-i) == 1 || bias->sym_size(-i) == scores[4 - i];
  if (!fits)
    fail(ErrorKind::value, "'attn_bias' is ", bias->sym_sizes(), ", which does not broadcast to the scores, ",
         c10::SymIntArrayRef(scores, 4), "; every dimension must be equal or 1");
}

void check_saved(const Tensor& query, std::vector<c10::SymInt> out_sizes, c10::SymIntArrayRef rows,
                 const Saved& saved) {
  const at::ScalarType type = query.scalar_type(),
                       sums = c10::typeMetaToScalarType(sum_options(query).dtype());
  require_agrees("out", saved.out, out_sizes, type, of_result);
  require_agrees("top", saved.top, rows, sums, as_saved);
  require_agrees("weight", saved.weight, rows, sums, as_saved);
  if (type == sums) out_sizes.back() = 0;
  require_agrees("residual", saved.residual, out_sizes, type, as_saved);
}

void check_gradient(const OptionalTensor& grad, const Tensor& of, const char* name) {
  if (grad && (!grad->sym_sizes().equals(of.sym_sizes()) || grad->scalar_type() != of.scalar_type()))
    fail(ErrorKind::value, "'grad_", name, "' is ", c10::toString(grad->scalar_type()), grad->sym_sizes(),
         " but '", name, "' ", c10::toString(of.scalar_type()), of.sym_sizes(), "; they must agree");
}

void check_request(const Request& request, const c10::SymInt& batch, const c10::SymInt& heads,
                   at::ScalarType dtype) {
  if (request.causal_align != "bottom_right" && request.causal_align != "top_left")
    fail(ErrorKind::value, "causal_align is '", request.causal_align, "'; give 'bottom_right' or 'top_left'");
  if (request.window.size() != 2 || request.window[0] < -1 || request.window[1] < -1)
    fail(ErrorKind::value, "window is ", request.window,
         "; give the number of keys before and after a query's own place, -1 for all");
  if (!(request.softcap >= 0))
    fail(ErrorKind::value, "softcap is ", request.softcap, "; give a positive number, or 0 for none");
  if (const OptionalTensor& slopes = request.alibi_slopes) {
    if (!at::isFloatingType(slopes->scalar_type()))
      fail(ErrorKind::type, "'alibi_slopes' is ", c10::toString(slopes->scalar_type()),
           "; convert it to Float");
    const bool fits = slopes->dim() == 1   ? slopes->sym_size(0) == heads
                      : slopes->dim() == 2 ? slopes->sym_size(0) == batch && slopes->sym_size(1) == heads
                                           : false;
    if (!fits)
      fail(ErrorKind::value, "'alibi_slopes' has shape ", slopes->sym_sizes(), "; it must be [", heads,
           "], a slope a head, or [", batch, ", ", heads, "]");
  }
  if (const OptionalTensor& sinks = request.sinks) {
    if (sinks->scalar_type() != dtype && sinks->scalar_type() != at::kFloat)
      fail(ErrorKind::type, "'sinks' is ", c10::toString(sinks->scalar_type()), " and 'query' ",
           c10::toString(dtype), "; convert it to the dtype of query, or to Float");
    if (sinks->dim() != 1 || sinks->sym_size(0) != heads)
      fail(ErrorKind::value, "'sinks' has shape ", sinks->sym_sizes(), "; it must be [", heads,
           "], a score a head");
  }
  if (!(request.dropout_p >= 0 && request.dropout_p <= 1))
    fail(ErrorKind::value, "dropout_p is ", request.dropout_p, "; give a fraction from 0 to 1");
  if (request.dropout_p == 0) return;
  if (!request.seed)
    fail(ErrorKind::value, "dropout_p is ", request.dropout_p,
         " and there is no seed; pass torch.randint(2**63 - 1, (2,)), on the device of query");
  if (request.seed->scalar_type() != at::kLong || request.seed->dim() != 1 || request.seed->sym_size(0) != 2)
    fail(ErrorKind::value, "'seed' is ", c10::toString(request.seed->scalar_type()),
         request.seed->sym_sizes(), "; it must be Long[2]");
}

Tensor empty_in_order(const Tensor& like, const std::vector<c10::SymInt>& sizes) {
  const int rank = static_cast<int>(sizes.size());
  const auto strides = like.sym_strides();
  std::vector<int> order(sizes.size());  // outermost first
  for (int i = 0; i < rank; ++i) {
    int position = i;
    for (int k = i; k-- > 0;) {
      const c10::SymInt &outer = strides[order[k]], &inner = strides[i];
      if (outer == 0 || inner == 0) continue;  // expanded: it does not say
      if (outer >= inner) break;
      position = k;
    }
    std::copy_backward(order.begin() + position, order.begin() + i, order.begin() + i + 1);
    order[position] = i;
  }
  std::vector<c10::SymInt> dense(sizes.size());
  c10::SymInt step = 1;
  for (int k = rank; k-- > 0;) {
    dense[order[k]] = step;
    step = step * sizes[order[k]].max(1);
  }
  return at::empty_strided_symint(sizes, dense, like.options());
}

}  // namespace tile::attention
