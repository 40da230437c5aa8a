// tile::linear_cross_entropy: the loss of input @ weight.T + bias, whose logits exist in chunks only.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "../common/arguments.h"
#include "../common/tuning.h"
#include "../products/gemm.h"
#include "rows_of_logits.h"

namespace {

using at::Tensor;
using std::optional;
using namespace tile;  // NOLINT: an operator's file is written in the kernel language

// So many of something of some bytes, in multiples of 64 where there are as many.
int64_t fitting(int64_t bytes, int64_t each, int64_t most) {
  const int64_t count = std::max<int64_t>(1, bytes / std::max<int64_t>(each, 1));
  return std::min(most, count < 64 ? count : count / 64 * 64);
}

// Rows [from, from + count) of tensors that have one for each target.
struct RowGroup {
  int64_t from, count;
  Tensor input, grad_input;
};
// The matrices that a tensor of rows consists of: one, where its leading axes are one.
void split_rows(const Tensor& input, const optional<Tensor>& grad, int64_t most, int64_t from,
                std::vector<RowGroup>& groups) {
  const auto flat = [](const Tensor& t) {
    for (int64_t axis = t.dim() - 3; axis >= 0; --axis)
      if (t.size(axis) != 1 && t.stride(axis) != t.size(axis + 1) * t.stride(axis + 1)) return false;
    return true;
  };
  if (!flat(input) || (grad && !flat(*grad))) {
    int64_t each = 1;
    for (int64_t axis = 1; axis + 1 < input.dim(); ++axis) each *= input.size(axis);
    for (int64_t i = 0; i < input.size(0); ++i)
      split_rows(input.select(0, i), grad ? optional(grad->select(0, i)) : std::nullopt, most,
                 from + i * each, groups);
    return;
  }
  int64_t rows = 1;
  for (int64_t axis = 0; axis + 1 < input.dim(); ++axis) rows *= input.size(axis);
  const auto part = [&](const Tensor& t, int64_t first, int64_t count) {
    const int64_t step = t.dim() == 1 ? t.size(0) : t.stride(-2);
    return t.as_strided({count, t.size(-1)}, {step, t.stride(-1)}, t.storage_offset() + first * step);
  };
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t count = std::min(most, rows - first);
    groups.push_back(
        {from + first, count, part(input, first, count), grad ? part(*grad, first, count) : Tensor()});
  }
}
std::vector<RowGroup> row_groups(const Tensor& input, const optional<Tensor>& grad, int64_t most) {
  std::vector<RowGroup> groups;
  split_rows(input, grad, most, 0, groups);
  return groups;
}

struct Head {
  Tensor weight;
  optional<Tensor> bias;
  LossOptions options;

  int64_t classes() const { return weight.size(0); }
  Tensor weights(int64_t first, int64_t count) const { return weight.narrow(0, first, count); }
  // Logits of classes [first, first + count) into the front of the buffer's rows.
  Tensor logits(const Tensor& input, int64_t first, int64_t count, const Tensor& buffer) const {
    const Tensor out = buffer.narrow(0, 0, input.size(0)).narrow(1, 0, count);
    multiply(input, weights(first, count).t(), out,
             {.bias = bias ? bias->narrow(0, first, count) : Tensor()});
    return out;
  }
};

template <class F>
void each_chunk(int64_t classes, int64_t width, F f) {
  for (int64_t first = 0; first < classes; first += width) f(first, std::min(width, classes - first));
}

Tensor empty_sums(const Tensor& like, at::IntArrayRef sizes) {
  return at::empty(sizes, like.options().dtype(compute_dtype(like.scalar_type())));
}

void forward(const Head& head, const Tensor& input, const Tensor& target, LossReduction reduction,
             const Tensor& out, const RowLse& saved, const optional<Tensor>& divisors) {
  const Tensor targets = target.reshape({target.numel()});
  check_classes(target, head.classes(), head.options.ignore_index);
  const bool none = reduction == LossReduction::none;
  const auto rows_of = [&](const Tensor& t) { return t.view({target.numel()}); };
  LossParts parts;
  if (!none) parts.sums = at::zeros({loss_kinds(reduction, false), target.numel()}, out.options());
  const int64_t rows = std::min(tuning::logit_chunk_rows, target.numel());
  const int64_t width =
      fitting(tuning::forward_logits_bytes, rows * static_cast<int64_t>(out.element_size()), head.classes());
  const Tensor buffer = empty_sums(input, {rows, width}), states = empty_sums(input, {row_state, rows});
  for (const RowGroup& group :
       target.numel() ? row_groups(input, std::nullopt, rows) : std::vector<RowGroup>()) {
    const auto own = [&](const Tensor& t) { return rows_of(t).narrow(0, group.from, group.count); };
    each_chunk(head.classes(), width, [&](int64_t first, int64_t count) {
      const bool last = first + count == head.classes();
      const Tensor logits = head.logits(group.input, first, count, buffer);
      loss_forward({logits, targets.narrow(0, group.from, group.count), {}, {}, head.classes(), first},
                   head.options, states, last ? saved.each(own) : RowLse{},
                   last && none ? optional(own(out)) : std::nullopt, last && !none ? &parts : nullptr,
                   reduction);
    });
  }
  if (!none) add_up_losses(parts, out, divisors);
}

struct Backward {
  Head head;
  Tensor grad_out, target;  // a number a row, or one
  RowLse saved;
  optional<Tensor> divisors;
  at::ScalarType type;

  Tensor own(const Tensor& values, int64_t from, int64_t count) const {
    return values.dim() == 0 ? values : values.narrow(0, from, count);
  }
  // The gradient of some rows' logits, in the operands' dtype.
  Tensor chunk(const Tensor& input, int64_t from, int64_t first, int64_t count, const Tensor& buffer,
               const Tensor& narrow) const {
    const Tensor logits = head.logits(input, first, count, buffer);
    const int64_t rows = input.size(0);
    const Tensor grad = narrow.narrow(0, 0, rows).narrow(1, 0, count);
    loss_backward({logits, own(target, from, rows), {}, {}, head.classes(), first}, head.options,
                  own(grad_out, from, rows), saved.each([&](const Tensor& t) { return own(t, from, rows); }),
                  divisors, grad);
    return grad;
  }
};

// out = x @ y, a sum over several calls: until the last one it is in `sum`, which may be out.
void accumulate(const Tensor& x, const Tensor& y, const Tensor& sum, const Tensor& out, bool first,
                bool last) {
  if (!last || sum.is_same(out))
    multiply(x, y, sum, {.accumulate = !first});
  else
    multiply(x, y, out, {.residual = first ? Tensor() : sum});
}

void backward(const Backward& of, const Tensor& input, const optional<Tensor>& grad_input,
              const optional<Tensor>& grad_weight, const optional<Tensor>& grad_bias) {
  const int64_t rows = of.target.numel(), classes = of.head.classes(), depth = input.size(-1);
  if (rows == 0) {
    for (const auto* grad : {&grad_weight, &grad_bias})
      if (*grad) (*grad)->zero_();
    return;
  }
  const bool wide = compute_dtype(of.type) == of.type;
  const int64_t bytes = of.type == at::kDouble ? 8 : 4;
  const bool sums_rows = grad_weight || grad_bias;
  // Rows whose gradients are summed together; the rest follow in groups, with their logits recomputed.
  const int64_t beside = !grad_input ? 0
                         : wide      ? rows
                                     : fitting(tuning::input_sums_bytes, depth * bytes, rows);
  const auto buffers = [&](int64_t count, int64_t width) {
    return std::pair(empty_sums(input, {count, width}), at::empty({count, width}, input.options()));
  };
  const auto width_of = [&](int64_t count) {
    return fitting(tuning::backward_logits_bytes, count * bytes, classes);
  };
  const Tensor sums = grad_input && !wide ? empty_sums(input, {beside, depth}) : Tensor();
  const auto add_input = [&](const Tensor& grad, const RowGroup& group, const Tensor& sum, int64_t count,
                             int64_t first, int64_t width) {
    const Tensor out = group.grad_input.narrow(0, 0, count);
    accumulate(grad.narrow(0, 0, count), of.head.weights(first, width), wide ? out : sum, out, first == 0,
               first + width == classes);
  };
  int64_t done = 0;
  if (sums_rows || wide) {
    const std::vector<RowGroup> groups =
        row_groups(input, grad_input, std::min(tuning::logit_chunk_rows, rows));
    const bool several = groups.size() > 1;
    int64_t width = width_of(std::min(tuning::logit_chunk_rows, rows));
    if (several && !wide && grad_weight)
      width = std::min(width, fitting(tuning::weight_sums_bytes, depth * bytes, classes));
    const auto [logits, narrow] = buffers(std::min(tuning::logit_chunk_rows, rows), width);
    const Tensor weight_sum = several && !wide && grad_weight ? empty_sums(input, {width, depth}) : Tensor();
    const Tensor bias_sum = grad_bias ? empty_sums(input, {1, width}) : Tensor();
    const Tensor one = at::ones({1, 1}, input.options());
    each_chunk(classes, width, [&](int64_t first, int64_t count) {
      for (size_t g = 0; g < groups.size(); ++g) {
        const RowGroup& group = groups[g];
        const bool begins = g == 0, ends = g + 1 == groups.size();
        const Tensor grad = of.chunk(group.input, group.from, first, count, logits, narrow);
        if (grad_weight) {
          const Tensor out = grad_weight->narrow(0, first, count);
          accumulate(grad.t(), group.input, weight_sum.defined() ? weight_sum.narrow(0, 0, count) : out, out,
                     begins, ends);
        }
        if (grad_bias)
          accumulate(one.expand({1, group.count}), grad, bias_sum.narrow(1, 0, count),
                     grad_bias->narrow(0, first, count).unsqueeze(0), begins, ends);
        if (const int64_t here = std::min(beside - group.from, group.count); here > 0)
          add_input(grad, group, wide ? Tensor() : sums.narrow(0, group.from, here), here, first, count);
      }
    });
    done = beside;
  }
  if (!grad_input || done == rows) return;
  // The gradient of the input alone, of as many rows at a time as sums have room for.
  const int64_t most = std::min(tuning::logit_chunk_rows, beside);
  const auto [logits, narrow] = buffers(most, width_of(most));
  for (const RowGroup& group : row_groups(input, grad_input, most)) {
    const int64_t skipped = std::clamp<int64_t>(done - group.from, 0, group.count),
                  count = group.count - skipped;
    if (count == 0) continue;
    const RowGroup rest{group.from + skipped, count, group.input.narrow(0, skipped, count),
                        group.grad_input.narrow(0, skipped, count)};
    each_chunk(classes, logits.size(1), [&](int64_t first, int64_t width) {
      const Tensor grad = of.chunk(rest.input, rest.from, first, width, logits, narrow);
      add_input(grad, rest, sums.narrow(0, 0, count), count, first, width);
    });
  }
}

struct Inputs {
  const Tensor &input, &weight, &target;
  const optional<Tensor>& bias;
};

void check(const Inputs& of, const LossRequest& request) {
  const auto& [input, weight, target, bias] = of;
  require_floating("input", input);
  require_same_dtype("input", input, "weight", weight);
  check_loss_options(request);
  if (input.dim() == 0 || weight.dim() != 2 || weight.sym_size(1) != input.sym_size(-1))
    fail(ErrorKind::value, "input is ", input.sym_sizes(), " and weight ", weight.sym_sizes(),
         "; they must be [..., d] and [classes, d]");
  const c10::SymIntArrayRef rows = input.sym_sizes().slice(0, static_cast<size_t>(input.dim() - 1));
  check_target(target, rows, "input without its last dimension");
  if (weight.sym_size(0) == 0 && target.sym_numel() != 0)
    fail(ErrorKind::value, "weight has shape ", weight.sym_sizes(), "; it needs a class at least");
  if (!bias) return;
  require_same_dtype("input", input, "bias", *bias);
  if (bias->dim() != 1 || bias->sym_size(0) != weight.sym_size(0))
    fail(ErrorKind::value, "bias has shape ", bias->sym_sizes(), "; it must be [", weight.sym_size(0),
         "], a number for each row of weight");
}

const auto linear_cross_entropy =
    op("tile::linear_cross_entropy(Tensor input, Tensor weight, Tensor target, *, Tensor? bias=None, "
       "int ignore_index=-100, str reduction=\"mean\", float label_smoothing=0.0, float z_loss=0.0) -> "
       "Tensor out")
        .saves("Tensor lse, Tensor divisors")
        .outputs([](const Inputs& of, const LossRequest& request) {
          check(of, request);
          return at::empty_symint(request.reduction == "none" ? of.target.sym_sizes() : c10::SymIntArrayRef(),
                                  of.input.options().dtype(compute_dtype(of.input.scalar_type())));
        })
        .saved_outputs([](const Inputs& of, const LossRequest& request) {
          const auto options = of.input.options().dtype(compute_dtype(of.input.scalar_type()));
          return std::tuple(empty_lse(of.input, of.target),
                            request.reduction == "mean" ? at::empty({2}, options) : Tensor());
        })
        .run([](const Inputs& of, const LossRequest& request, Tensor& out, const optional<Tensor>& lse,
                const optional<Tensor>& divisors) {
          forward({of.weight, of.bias, request.options()}, of.input, of.target,
                  parse_reduction(request.reduction), out, row_lse(lse, of.input.scalar_type()), divisors);
        })
        .autocast("lower")
        .grad("tile::linear_cross_entropy_backward");

const auto linear_cross_entropy_backward =
    op("tile::linear_cross_entropy_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor target, "
       "Tensor? bias, int ignore_index, str reduction, float label_smoothing, float z_loss, Tensor lse, "
       "Tensor? divisors, bool[3] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)")
        .outputs([](const Tensor& grad_out, const Inputs& of, const LossRequest& request,
                    const SavedOfLoss& saved, std::array<bool, 3> wanted) {
          check(of, request);
          const at::ScalarType dtype = of.input.scalar_type();
          check_loss_gradient(grad_out, compute_dtype(dtype), dtype, of.target, saved, request.reduction);
          return std::tuple(wanted[0] ? result_like(of.input) : Tensor(),
                            wanted[1] ? result_like(of.weight) : Tensor(),
                            wanted[2] && of.bias ? result_like(*of.bias) : Tensor());
        })
        .run([](const Tensor& grad_out, const Inputs& of, const LossRequest& request,
                const SavedOfLoss& saved, std::array<bool, 3>, const optional<Tensor>& grad_input,
                const optional<Tensor>& grad_weight, const optional<Tensor>& grad_bias) {
          const auto& [input, weight, target, bias] = of;
          check_classes(target, weight.size(0), request.ignore_index);
          const auto flat = [&of](const Tensor& t) { return t.reshape({of.target.numel()}); };
          const bool each = request.reduction == "none" || target.dim() == 0;
          backward({{weight, bias, request.options()},
                    each ? flat(grad_out) : grad_out,
                    flat(target),
                    row_lse(saved.lse, input.scalar_type()).each(flat),
                    saved.divisors,
                    input.scalar_type()},
                   input, grad_input, grad_weight, grad_bias);
        });

}  // namespace
