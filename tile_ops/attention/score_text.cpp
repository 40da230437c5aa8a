// tile::_attention_with_score: attention whose scores a text changes, and its gradient.
#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "bias.h"
#include "problem.h"
#include "tile/expression_text.h"

namespace tile::attention {

void key_words(LaunchKey& key, const ScoreText& text) {
  key.add(reinterpret_cast<uintptr_t>(text.parsed.get()));
}

namespace {

// A launch passes at most 16 arrays of a list.
constexpr size_t most_operands = 8;
// Numbers of queries and keys are floats in a text, which hold whole numbers up to here.
constexpr int64_t most_length = int64_t{1} << 24;

struct ScoreRequest {
  const std::string& score;
  const OptionalTensor& mask;
  bool is_causal;
  std::optional<double> scale;
  at::IntArrayRef window;
};
// The last operands of a text, those that are learned, have gradients.
struct TextOperands {
  at::TensorList fixed;
  const std::optional<std::vector<Tensor>>& learned;
  std::vector<Tensor> all() const {
    std::vector<Tensor> list = fixed.vec();
    if (learned) list.insert(list.end(), learned->begin(), learned->end());
    return list;
  }
};
struct Asked {
  const Operands& of;
  const TextOperands& operands;
  const ScoreRequest& request;
};

ScoreText parsed(const std::string& text, at::TensorList operands) {
  std::string key = text;
  ExpressionKinds kinds{.dtypes = std::vector<DType>(names_before_operands, DType::f32),
                        .first_table = names_before_operands};
  std::fill_n(kinds.dtypes.rbegin(), axes_of_scores, DType::i32);
  std::vector<std::string> names{"score", "b", "h", "q", "k", "ib", "ih", "iq", "ik"};
  for (size_t k = 0; k < operands.size(); ++k) {
    const DType dtype = to_dtype(operands[k].scalar_type());
    kinds.dtypes.push_back(is_floating(dtype) ? DType::f32 : dtype);
    key += static_cast<char>(kinds.dtypes.back());
    names.push_back(str("x", k));
  }
  static std::mutex mutex;
  static std::unordered_map<std::string, ScoreText> known;
  {
    std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  auto made = std::make_shared<const ExpressionText>("score", text, std::move(names), std::move(kinds));
  if (!made->uses(0)) fail(ErrorKind::value, "score '", text, "' does not use score; add it to the text");
  std::lock_guard lock(mutex);
  return known.emplace(std::move(key), ScoreText{std::move(made)}).first->second;
}

size_t indices_of(const ScoreText& text, size_t operand) {
  return text->indices(names_before_operands + operand);
}

// [batch, heads, query or 1, key or 1] of a tensor that broadcasts to the scores.
Tensor spread(const Tensor& operand, const Operands& of) {
  const Tensor four = four_dimensions(operand);
  return four.expand({of.query.size(0), of.query.size(1), four.size(2), four.size(3)});
}
HostText host_text(const Asked& asked) {
  const Operands& of = asked.of;
  const std::vector<Tensor> operands = asked.operands.all();
  HostText made{.text = parsed(asked.request.score, operands)};
  for (size_t k = 0; k < operands.size(); ++k) {
    if (indices_of(made.text, k)) {
      made.operands.push_back(operands[k]);
      made.varies.push_back(table);
      continue;
    }
    const Tensor& whole = made.operands.emplace_back(spread(operands[k], of));
    made.varies.push_back(static_cast<Varies>((whole.size(2) != 1 ? by_query : nowhere) |
                                              (whole.size(3) != 1 ? by_key : nowhere)));
  }
  return made;
}

// A call of attention without what a text replaces.
struct Plain {
  explicit Plain(const ScoreRequest& asked)
      : request{asked.is_causal, align, asked.scale, asked.window, 0.0, none, none, 0.0, none} {}
  std::string align = "top_left";
  OptionalTensor none;
  Request request;
};

void check(const Asked& asked) {
  const auto& [of, given, request] = asked;
  const std::vector<Tensor> operands = given.all();
  check_inputs(of, request.mask);
  const Tensor &query = of.query, &key = of.key;
  check_request(Plain(request).request, query.sym_size(0), query.sym_size(1), query.scalar_type());
  if (request.mask && request.mask->scalar_type() != at::kBool)
    fail(ErrorKind::type, "'attn_bias' is ", c10::toString(request.mask->scalar_type()),
         "; give a bool mask, and add numbers in the text");
  if (query.sym_size(2) > most_length || key.sym_size(2) > most_length)
    fail(ErrorKind::value, "there are ", query.sym_size(2), " queries and ", key.sym_size(2),
         " keys; a text counts up to ", most_length);
  if (operands.size() > most_operands)
    fail(ErrorKind::value, "operands has ", operands.size(), " tensors; the most is ", most_operands);
  const c10::SymInt scores[] = {query.sym_size(0), query.sym_size(1), query.sym_size(2), key.sym_size(2)};
  for (size_t k = 0; k < operands.size(); ++k) {
    const at::ScalarType type = operands[k].scalar_type();
    if (k >= given.fixed.size() && !at::isFloatingType(type))
      fail(ErrorKind::type, "learned operand x", k, " is ", c10::toString(type),
           ", which has no gradient; give it among the operands that are not learned");
    if (type != at::kBool && type != at::kInt && type != at::kLong && !at::isFloatingType(type))
      fail(ErrorKind::type, "operand x", k, " is ", c10::toString(type),
           "; convert it to a floating dtype, Int, Long or bool");
  }
  const ScoreText text = parsed(request.score, operands);
  for (size_t k = 0; k < operands.size(); ++k) {
    const Tensor& operand = operands[k];
    if (const size_t axes = indices_of(text, k)) {
      if (static_cast<size_t>(operand.dim()) != axes || axes > most_table_axes)
        fail(ErrorKind::value, "operand x", k, " is ", operand.sym_sizes(), " and the text reads it with ",
             axes, axes == 1 ? " index" : " indices", "; give an index for each axis; a table has at most ",
             most_table_axes, " axes");
      continue;
    }
    bool fits = operand.dim() <= 4;
    for (int64_t i = 1; fits && i <= operand.dim(); ++i)
      fits = operand.sym_size(-i) == 1 || operand.sym_size(-i) == scores[4 - i];
    if (!fits)
      fail(ErrorKind::value, "operand x", k, " is ", operand.sym_sizes(),
           ", which does not broadcast to the scores, ", c10::SymIntArrayRef(scores, 4),
           "; every dimension must be equal or 1");
  }
}

// Gradients of a table are added up by atomic operations, of which only a CPU knows the order.
void check_order(const HostText& text, const std::vector<Tensor>& grads) {
  if (grads.empty() || grads[0].is_cpu() || !wants_fixed_order()) return;
  const size_t first = text.operands.size() - grads.size();
  for (size_t k = first; k < text.operands.size(); ++k)
    if (text.varies[k] == table)
      fail(ErrorKind::unsupported, "the gradient of x", k,
           ", whose elements are read at computed places, is added up in no fixed order on a GPU; switch "
           "torch.use_deterministic_algorithms off, or detach it");
}

const auto attention_with_score =
    op("tile::_attention_with_score(Tensor query, Tensor key, Tensor value, Tensor[] operands, *, Tensor[]? "
       "learned=None, str score, Tensor? attn_bias=None, bool is_causal=False, float? scale=None, int[2] "
       "window=[-1, -1]) -> (Tensor out, Tensor lse)")
        .outputs([](const Operands& of, const TextOperands& operands, const ScoreRequest& request) {
          check({of, operands, request});
          std::vector<c10::SymInt> sizes = of.query.sym_sizes().vec();
          Tensor lse = at::empty_symint(c10::SymIntArrayRef(sizes.data(), 3), sum_options(of.query));
          sizes[3] = of.value.sym_size(3);
          return std::tuple(empty_in_order(of.query, sizes), std::move(lse));
        })
        .saves("Tensor top, Tensor weight, Tensor residual")
        .saved_outputs([](const Operands&, const TextOperands& operands, const ScoreRequest& request,
                          const Tensor& out, const Tensor& lse) {
          if (!parsed(request.score, operands.all())->has_derivatives())
            fail(ErrorKind::unsupported, "score '", request.score,
                 "' has no derivative; detach query, key and value, or use functions that have one");
          std::vector<c10::SymInt> sizes = out.sym_sizes().vec();
          if (out.scalar_type() == lse.scalar_type()) sizes[3] = 0;
          return std::tuple(result_like(lse), result_like(lse), empty_in_order(out, sizes));
        })
        .run([](const Operands& of, const TextOperands& operands, const ScoreRequest& request,
                const Results& results) {
          HostText text = host_text({of, operands, request});
          text.checks = of.query.is_cpu();
          run_forward(of, request.mask, Plain(request).request, results, nullptr, &text);
        })
        .grad("tile::_attention_with_score_backward");

const auto attention_with_score_backward =
    op("tile::_attention_with_score_backward(Tensor? grad_out, Tensor? grad_lse, Tensor query, Tensor key, "
       "Tensor value, Tensor[] operands, Tensor[]? learned, Tensor out, Tensor top, Tensor weight, Tensor "
       "residual, *, str score, Tensor? attn_bias, bool is_causal, float? scale, int[2] window, bool[4] "
       "output_mask) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor[] grad_learned)")
        .outputs([](const GradientsOfResults& incoming, const Operands& of, const TextOperands& operands,
                    const Saved& saved, const ScoreRequest& request, std::array<bool, 4> mask) {
          check({of, operands, request});
          const auto& [query, key, value] = of;
          const c10::SymIntArrayRef rows = query.sym_sizes().slice(0, 3);
          check_saved(query, {rows[0], rows[1], rows[2], value.sym_size(3)}, rows, saved);
          check_gradient(incoming.grad_out, saved.out, "out");
          check_gradient(incoming.grad_lse, saved.top, "lse");
          std::vector<Tensor> grads;
          if (mask[3] && operands.learned)
            for (const Tensor& each : *operands.learned) grads.push_back(empty_in_order(each));
          return std::tuple(mask[0] ? empty_in_order(query) : Tensor(),
                            mask[1] ? empty_in_order(key) : Tensor(),
                            mask[2] ? empty_in_order(value) : Tensor(), std::move(grads));
        })
        .run([](const GradientsOfResults& incoming, const Operands& of, const TextOperands& operands,
                const Saved& saved, const ScoreRequest& request, const std::array<bool, 4>&,
                const Operands& grads, const std::vector<Tensor>& grad_learned) {
          const HostText text = host_text({of, operands, request});
          const Tensor none;
          check_order(text, grad_learned);
          run_backward({incoming, of, request.mask, saved, grads, none, none, grad_learned},
                       Plain(request).request, nullptr, &text);
        });

}  // namespace
}  // namespace tile::attention
