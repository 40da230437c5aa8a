// tile::linear_cross_entropy: the loss of input @ weight.T + bias, whose logits exist in chunks only.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "../common/arguments.h"
#include "../common/derivation.h"
#include "../common/scale.h"
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

// The bytes of logits that a call may have at once: `bytes`, or more where the input is large.
int64_t logits_bytes(const Tensor& input, int64_t rows, int64_t bytes) {
  return std::max(bytes,
                  tuning::loss_inputs * rows * input.size(-1) * static_cast<int64_t>(input.element_size()));
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
  const bool at_once = is_recorded();  // a record keeps the memory of every chunk
  // Rows whose gradients are summed together. Without a gradient of the weights others follow in groups.
  const int64_t beside = !grad_input ? 0
                         : wide || at_once || sums_rows
                             ? rows
                             : fitting(tuning::input_sums_bytes, depth * bytes, rows);
  const auto buffers = [&](int64_t count, int64_t width) {
    return std::pair(empty_sums(input, {count, width}), at::empty({count, width}, input.options()));
  };
  const int64_t room = logits_bytes(input, rows, tuning::backward_logits_bytes);
  const auto width_of = [&](int64_t count) {
    return at_once ? classes : fitting(room, count * bytes, classes);
  };
  const bool together = at_once || width_of(rows) >= std::min(classes, tuning::fewest_chunk_classes);
  const int64_t most_rows = together ? rows : std::min(tuning::logit_chunk_rows, rows);
  const Tensor sums = grad_input && !wide ? empty_sums(input, {beside, depth}) : Tensor();
  const auto add_input = [&](const Tensor& grad, const RowGroup& group, const Tensor& sum, int64_t count,
                             int64_t first, int64_t width) {
    const Tensor out = group.grad_input.narrow(0, 0, count);
    accumulate(grad.narrow(0, 0, count), of.head.weights(first, width), wide ? out : sum, out, first == 0,
               first + width == classes);
  };
  int64_t done = 0;
  if (sums_rows || wide || at_once) {
    const std::vector<RowGroup> groups = row_groups(input, grad_input, most_rows);
    const bool several = groups.size() > 1;
    int64_t width = width_of(most_rows);
    if (several && !wide && grad_weight)
      width = std::min(width, fitting(tuning::weight_sums_bytes, depth * bytes, classes));
    const auto [logits, narrow] = buffers(most_rows, width);
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
    each_chunk(classes, narrow.size(1), [&](int64_t first, int64_t width) {
      const Tensor grad = of.chunk(rest.input, rest.from, first, width, logits, narrow);
      add_input(grad, rest, sums.narrow(0, 0, count), count, first, width);
    });
  }
}

// Gradients that the forward computes, for a gradient of the loss of 1. float16 has no room for them: such a
// gradient is made large by a factor that the backward brings, and small numbers would be lost before. A
// gradient of the weights needs the logits of all rows at once: in memory of their own, or in that of the
// gradient itself, whose rows of `depth` numbers then hold a number of each row of logits. Else it is added
// up over groups of rows: in place, or in sums of 4 bytes where it has 16 bits. Where these are too large it
// is left to the backward.
bool computes_early(const Tensor& input, const Tensor& weight, const Tensor& target,
                    const std::string& reduction, std::array<bool, 3> wanted) {
  if (reduction == "none" || input.scalar_type() == at::kHalf || !(wanted[0] || wanted[1] || wanted[2]))
    return false;
  if (!wanted[1] || compute_dtype(input.scalar_type()) == input.scalar_type()) return true;
  const c10::SymInt rows = target.sym_numel(), element = static_cast<int64_t>(input.element_size());
  const c10::SymInt sums = weight.sym_numel() * 4;
  const auto holds = [](const c10::SymBool& condition) {
    return condition.guard_or_false(__FILE__, __LINE__);
  };
  return holds(rows.sym_le(input.sym_size(-1))) ||
         holds((rows * weight.sym_size(0) * element).sym_le(tuning::early_logits_bytes)) ||
         holds(sums.sym_le(tuning::early_groups_bytes / 2)) ||
         holds(sums.sym_le(rows * input.sym_size(-1) * element * tuning::loss_inputs));
}

struct EarlyGradients {
  const optional<Tensor>&input, &weight, &bias;
};

// The memory of logits that become their gradient: of all rows, where the weights' gradient needs them, or of
// a group of rows.
struct LogitsMemory {
  int64_t rows;
  bool borrowed;  // from the weights' gradient, transposed
  bool grouped;   // the weights' gradient is added up over groups
  Tensor logits, grad;

  LogitsMemory(const Tensor& input, int64_t all, int64_t classes, const optional<Tensor>& grad_weight) {
    const int64_t element = static_cast<int64_t>(input.element_size()), budget = tuning::early_logits_bytes;
    const at::ScalarType compute = compute_dtype(input.scalar_type());
    const bool narrow = compute != input.scalar_type(), fits = all * classes * element <= budget;
    borrowed = grad_weight && !fits && all <= input.size(-1);
    grouped = grad_weight && !fits && !borrowed;
    rows = all;
    if (grouped)
      rows = fitting(
          logits_bytes(input, all, tuning::early_groups_bytes - (narrow ? grad_weight->numel() * 4 : 0)),
          classes * element, all);
    else if (!grad_weight)
      rows = fitting(budget, classes * element, all);
    if (borrowed) {
      logits = grad = grad_weight->narrow(1, 0, all).t();
      return;
    }
    // Long rows begin at multiples of 16 bytes, where a GPU's copy unit reads them.
    const int64_t step = classes < tuning::fewest_chunk_classes ? classes : ceil_div(classes, 8) * 8;
    const auto empty = [&](at::TensorOptions options) {
      return at::empty({rows, step}, options).narrow(1, 0, classes);
    };
    grad = empty(input.options());
    // Logits of 16 bits round as torch's do; few are exact.
    const bool exact = narrow && rows == all && all * classes * (element + 4) <= budget;
    logits = exact ? empty(input.options().dtype(compute)) : grad;
  }
};

void add_weight_gradients(const LogitsMemory& memory, const std::vector<RowGroup>& groups,
                          const Tensor& out) {
  const int64_t classes = out.size(0), depth = out.size(1);
  const bool sums = groups.size() > 1 && compute_dtype(out.scalar_type()) != out.scalar_type();
  int64_t width = memory.borrowed ? fitting(tuning::copied_logits_bytes,
                                            memory.rows * static_cast<int64_t>(out.element_size()), classes)
                                  : classes;
  if (sums) {
    const int64_t used = memory.borrowed
                             ? tuning::copied_logits_bytes
                             : static_cast<int64_t>(memory.grad.nbytes() + memory.logits.nbytes());
    width = std::min(width, fitting(std::clamp<int64_t>(tuning::early_logits_bytes - used, tuning::kib * 512,
                                                        tuning::weight_sums_bytes),
                                    depth * 4, classes));
  }
  const Tensor sum = sums ? empty_sums(out, {width, depth}) : Tensor();
  const Tensor copy = memory.borrowed ? at::empty({width, memory.rows}, out.options()) : Tensor();
  each_chunk(classes, width, [&](int64_t first, int64_t count) {
    Tensor grad = memory.grad.narrow(1, first, count).t();
    if (memory.borrowed) grad = copy.narrow(0, 0, count).copy_(grad);
    const Tensor part = out.narrow(0, first, count);
    for (size_t g = 0; g < groups.size(); ++g)
      accumulate(grad.narrow(1, groups[g].from, groups[g].count), groups[g].input,
                 sums ? sum.narrow(0, 0, count) : part, part, g == 0, g + 1 == groups.size());
  });
}

void forward_with_gradients(const Head& head, const Tensor& input, const Tensor& target,
                            LossReduction reduction, const Tensor& out, const RowLse& saved,
                            const optional<Tensor>& divisors, const EarlyGradients& gradients) {
  const int64_t rows = target.numel(), classes = head.classes();
  if (rows == 0) {
    for (const auto* grad : {&gradients.weight, &gradients.bias})
      if (*grad) (*grad)->zero_();
    return forward(head, input, target, reduction, out, saved, divisors);
  }
  check_classes(target, classes, head.options.ignore_index);
  const Tensor targets = target.reshape({rows}), one = at::ones({}, out.options());
  if (divisors) count_targets(targets, head.options.ignore_index, *divisors);
  LossParts parts{at::zeros({loss_kinds(reduction, false), rows}, out.options())};
  const LogitsMemory memory(input, rows, classes, gradients.weight);
  const std::vector<RowGroup> groups = row_groups(input, gradients.input, memory.rows);
  const Tensor bias_sum = gradients.bias ? empty_sums(input, {1, classes}) : Tensor();
  const Tensor ones = at::ones({1, 1}, input.options());
  const bool narrow = compute_dtype(input.scalar_type()) != input.scalar_type();
  const Tensor weight_sum = !memory.grouped               ? Tensor()
                            : narrow && groups.size() > 1 ? empty_sums(input, gradients.weight->sizes())
                                                          : *gradients.weight;
  for (size_t g = 0; g < groups.size(); ++g) {
    const RowGroup& group = groups[g];
    const bool begins = g == 0, ends = g + 1 == groups.size();
    const auto own = [&](const Tensor& t) { return t.view({rows}).narrow(0, group.from, group.count); };
    const auto part = [&](const Tensor& t) {
      return t.narrow(0, memory.rows == rows ? group.from : 0, group.count);
    };
    const Tensor logits = head.logits(group.input, 0, classes, part(memory.logits));
    const Tensor grad = memory.grad.is_same(memory.logits) ? logits : part(memory.grad);
    const Logits of{logits, own(targets), {}, {}, classes};
    const RowLse lse = saved.each(own);
    loss_forward(of, head.options, std::nullopt, lse, std::nullopt, &parts, reduction);
    loss_backward(of, head.options, one, lse, divisors, grad);
    if (gradients.bias)
      accumulate(ones.expand({1, group.count}), grad, bias_sum, gradients.bias->unsqueeze(0), begins, ends);
    if (gradients.input) multiply(grad, head.weight, group.grad_input);
    if (memory.grouped) accumulate(grad.t(), group.input, weight_sum, *gradients.weight, begins, ends);
  }
  if (gradients.weight && !memory.grouped) add_weight_gradients(memory, groups, *gradients.weight);
  add_up_losses(parts, out, divisors);
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

void check_early(const Inputs& of, const LossRequest& request, const EarlyGradients& early) {
  const auto check_one = [&](const char* name, const optional<Tensor>& given, const Tensor* like) {
    if (!given) return;
    if (!like || request.reduction == "none")
      fail(ErrorKind::value, name, " is given and ", like ? "reduction is \"none\"" : "bias is not",
           "; pass None");
    require_agrees(name, *given, like->sym_sizes(), like->scalar_type(), as_saved);
  };
  check_one("input_grad", early.input, &of.input);
  check_one("weight_grad", early.weight, &of.weight);
  check_one("bias_grad", early.bias, of.bias ? &*of.bias : nullptr);
}

// A gradient that the forward computed takes its factor; it is then done.
void take_early(const optional<Tensor>& early, const Tensor& grad_out, optional<Tensor>& grad) {
  if (!early || !grad) return;
  scale(*early, grad_out, *grad);
  grad.reset();
}

const auto linear_cross_entropy =
    op("tile::linear_cross_entropy(Tensor input, Tensor weight, Tensor target, *, Tensor? bias=None, "
       "int ignore_index=-100, str reduction=\"mean\", float label_smoothing=0.0, float z_loss=0.0) -> "
       "Tensor out")
        .saves("Tensor lse, Tensor divisors, Tensor input_grad, Tensor weight_grad, Tensor bias_grad",
               "tile::_scale_gradients_")
        .outputs([](const Inputs& of, const LossRequest& request) {
          check(of, request);
          return at::empty_symint(request.reduction == "none" ? of.target.sym_sizes() : c10::SymIntArrayRef(),
                                  of.input.options().dtype(compute_dtype(of.input.scalar_type())));
        })
        .saved_outputs([](const Inputs& of, const LossRequest& request, std::array<bool, 3> wanted) {
          const auto options = of.input.options().dtype(compute_dtype(of.input.scalar_type()));
          const bool early = computes_early(of.input, of.weight, of.target, request.reduction, wanted);
          return std::tuple(empty_lse(of.input, of.target),
                            request.reduction == "mean" ? at::empty({2}, options) : Tensor(),
                            early && wanted[0] ? result_like(of.input) : Tensor(),
                            early && wanted[1] ? result_like(of.weight) : Tensor(),
                            early && wanted[2] && of.bias ? result_like(*of.bias) : Tensor());
        })
        .run([](const Inputs& of, const LossRequest& request, std::array<bool, 3>, Tensor& out,
                const optional<Tensor>& lse, const optional<Tensor>& divisors,
                const optional<Tensor>& input_grad, const optional<Tensor>& weight_grad,
                const optional<Tensor>& bias_grad) {
          const Head head{of.weight, of.bias, request.options()};
          const LossReduction reduction = parse_reduction(request.reduction);
          const RowLse saved = row_lse(lse, of.input.scalar_type());
          if (input_grad || weight_grad || bias_grad)
            forward_with_gradients(head, of.input, of.target, reduction, out, saved, divisors,
                                   {input_grad, weight_grad, bias_grad});
          else
            forward(head, of.input, of.target, reduction, out, saved, divisors);
        })
        .autocast("lower")
        .grad("tile::linear_cross_entropy_backward");

const auto linear_cross_entropy_backward =
    op("tile::linear_cross_entropy_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor target, "
       "Tensor? bias, int ignore_index, str reduction, float label_smoothing, float z_loss, Tensor lse, "
       "Tensor? divisors, bool[3] output_mask, Tensor? input_grad=None, Tensor? weight_grad=None, Tensor? "
       "bias_grad=None) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)")
        .outputs([](const Tensor& grad_out, const Inputs& of, const LossRequest& request,
                    const SavedOfLoss& saved, std::array<bool, 3> wanted, const EarlyGradients& early) {
          check(of, request);
          const at::ScalarType dtype = of.input.scalar_type();
          check_loss_gradient(grad_out, compute_dtype(dtype), dtype, of.target, saved, request.reduction);
          check_early(of, request, early);
          return std::tuple(wanted[0] ? result_like(of.input) : Tensor(),
                            wanted[1] ? result_like(of.weight) : Tensor(),
                            wanted[2] && of.bias ? result_like(*of.bias) : Tensor());
        })
        .run([](const Tensor& grad_out, const Inputs& of, const LossRequest& request,
                const SavedOfLoss& saved, std::array<bool, 3>, const EarlyGradients& early,
                optional<Tensor> grad_input, optional<Tensor> grad_weight, optional<Tensor> grad_bias) {
          const auto& [input, weight, target, bias] = of;
          if (!is_recorded()) {
            take_early(early.input, grad_out, grad_input);
            take_early(early.weight, grad_out, grad_weight);
            take_early(early.bias, grad_out, grad_bias);
          }
          if (!grad_input && !grad_weight && !grad_bias) return;
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
        })
        .grad_by_compiler({"lse", "divisors", "input_grad", "weight_grad", "bias_grad"});

}  // namespace
