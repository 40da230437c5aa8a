// Operators that the tests of csrc/torch call. Each part of a definition occurs once; the bodies call torch.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "torch/op.h"

namespace {

using at::Tensor;
using std::optional;
using Tensors = std::vector<Tensor>;

Tensor like(const Tensor& tensor) { return at::empty_symint(tensor.sym_sizes(), tensor.options()); }
Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
}

// Two results, four arguments, two of them without a gradient.
const auto rope =
    tile::op("tt::rope(Tensor x, Tensor cos, Tensor sin, float scale=1.0) -> (Tensor y, Tensor m)")
        .outputs([](const Tensor& x, const Tensor& cos, const Tensor&, double) {
          if (x.sym_size(-1) != 2 * cos.sym_size(-1))
            tile::fail(tile::ErrorKind::value, "the last extent of x is ", x.sym_size(-1),
                       ", twice that of cos is ", 2 * cos.sym_size(-1), "; make them equal");
          return std::tuple(like(x), at::empty_symint(x.sym_sizes().slice(0, x.dim() - 1), x.options()));
        })
        .run([](const Tensor& x, const Tensor& cos, const Tensor& sin, double scale, Tensor& y, Tensor& m) {
          y.copy_(scale * rotate(x, cos, sin));
          m.copy_((x * x).sum(-1));
        })
        .grad("tt::rope_backward")
        .leading({"x"})
        .autocast("lower");
const auto rope_backward =
    tile::op(
        "tt::rope_backward(Tensor? grad_y, Tensor? grad_m, Tensor x, Tensor cos, Tensor sin, float "
        "scale=1.0) -> (Tensor grad_x)")
        .outputs([](const optional<Tensor>&, const optional<Tensor>&, const Tensor& x, const Tensor&,
                    const Tensor&, double) { return like(x); })
        .run([](const optional<Tensor>& grad_y, const optional<Tensor>& grad_m, const Tensor& x,
                const Tensor& cos, const Tensor& sin, double scale, Tensor& grad_x) {
          grad_x.zero_();
          if (grad_y) grad_x.add_(scale * rotate(*grad_y, cos, -sin));
          if (grad_m) grad_x.add_(2 * grad_m->unsqueeze(-1) * x);
        })
        .leading({"grad_y", "grad_m", "x"});

// Saves values for backward; the gradient takes an output mask.
const auto norm =
    tile::op("tt::norm(Tensor input, Tensor? weight=None, float eps=1e-5) -> Tensor")
        .outputs([](const Tensor& input, const optional<Tensor>&, double) { return like(input); })
        .saves("Tensor mean, Tensor rstd")
        .saved_outputs([](const Tensor& input, const optional<Tensor>&, double) {
          const auto sizes = input.sym_sizes().slice(0, input.dim() - 1);
          return std::pair(at::empty_symint(sizes, input.options()),
                           at::empty_symint(sizes, input.options()));
        })
        .run([](const Tensor& input, const optional<Tensor>& weight, double eps, Tensor& out,
                const optional<Tensor>& mean, Tensor& rstd) {
          const Tensor average = input.mean(-1, true), scale = (input.var(-1, false, true) + eps).rsqrt();
          out.copy_((input - average) * scale);
          if (weight) out.mul_(*weight);
          if (mean) mean->copy_(average.squeeze(-1));
          if (rstd.defined()) rstd.copy_(scale.squeeze(-1));
        })
        .grad("tt::norm_backward")
        .leading({"input"})
        .autocast("keep", "fp32");
const auto norm_backward =
    tile::op(
        "tt::norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor mean, Tensor rstd, bool[2] "
        "output_mask) "
        "-> (Tensor grad_input, Tensor grad_weight)")
        .outputs([](const Tensor&, const Tensor& input, const optional<Tensor>& weight, const Tensor&,
                    const Tensor&, std::array<bool, 2> mask) {
          return std::tuple(mask[0] ? like(input) : Tensor(), mask[1] ? like(*weight) : Tensor());
        })
        .run([](const Tensor& grad_out, const Tensor& input, const optional<Tensor>& weight,
                const Tensor& mean, const Tensor& rstd, const std::vector<bool>&, Tensor& grad_input,
                const optional<Tensor>& grad_weight) {
          const Tensor scale = rstd.unsqueeze(-1), unit = (input - mean.unsqueeze(-1)) * scale;
          const Tensor grad = weight ? grad_out * *weight : grad_out;
          if (grad_input.defined())
            grad_input.copy_((grad - grad.mean(-1, true) - unit * (grad * unit).mean(-1, true)) * scale);
          if (grad_weight) grad_weight->copy_((grad_out * unit).reshape({-1, input.size(-1)}).sum(0));
        })
        .leading({"grad_out", "input", "mean", "rstd"}, {"grad_weight"});

// Saves only for some arguments; the saved shape is the result's.
const auto square = tile::op("tt::square(Tensor input, bool keep_input) -> Tensor out")
                        .outputs([](const Tensor& input, bool) { return like(input); })
                        .saves("Tensor twice")
                        .saved_outputs([](const Tensor&, bool keep_input, const Tensor& out) {
                          return keep_input ? Tensor() : like(out);
                        })
                        .run([](const Tensor& input, bool, Tensor& out, const optional<Tensor>& twice) {
                          out.copy_(input * input);
                          if (twice) twice->copy_(2 * input);
                        })
                        .grad("tt::square_backward");
const auto square_backward =
    tile::op("tt::square_backward(Tensor grad_out, Tensor input, Tensor? twice) -> Tensor grad_input")
        .outputs([](const Tensor&, const Tensor& input, const optional<Tensor>&) { return like(input); })
        .run([](const Tensor& grad_out, const Tensor& input, const optional<Tensor>& twice,
                Tensor& grad_input) { grad_input.copy_(grad_out * (twice ? *twice : 2 * input)); });

// One gradient serves two arguments.
const auto plus =
    tile::op("tt::plus(Tensor x, Tensor y, Tensor factor) -> (Tensor out, Tensor sum)")
        .outputs([](const Tensor& x, const Tensor&, const Tensor&) { return std::tuple(like(x), like(x)); })
        .run([](const Tensor& x, const Tensor& y, const Tensor& factor, Tensor& out, Tensor& sum) {
          sum.copy_(x + y);
          out.copy_(sum * factor);
        })
        .grad("tt::plus_backward")
        .leading({"x", "y", "factor"});
const auto plus_backward =
    tile::op(
        "tt::plus_backward(Tensor? grad_out, Tensor? grad_sum, Tensor factor, Tensor sum, bool[2] "
        "output_mask) "
        "-> (Tensor grad_x_and_y, Tensor grad_factor)")
        .outputs([](const optional<Tensor>&, const optional<Tensor>&, const Tensor& factor, const Tensor& sum,
                    std::array<bool, 2> mask) {
          return std::tuple(mask[0] ? like(sum) : Tensor(), mask[1] ? like(factor) : Tensor());
        })
        .run([](const optional<Tensor>& grad_out, const optional<Tensor>& grad_sum, const Tensor& factor,
                const Tensor& sum, std::array<bool, 2>, const optional<Tensor>& grad_both,
                const optional<Tensor>& grad_factor) {
          if (grad_both) grad_both->zero_();
          if (grad_both && grad_out) grad_both->add_(*grad_out * factor);
          if (grad_both && grad_sum) grad_both->add_(*grad_sum);
          if (grad_factor) grad_factor->zero_();
          if (grad_factor && grad_out) grad_factor->add_(*grad_out * sum);
        })
        .leading({"grad_out", "grad_sum", "factor", "sum"});

// The gradient reads the result, and has a gradient itself.
const auto ex = tile::op("tt::ex(Tensor x) -> (Tensor y)")
                    .outputs([](const Tensor& x) { return like(x); })
                    .run([](const Tensor& x, Tensor& y) { y.copy_(x.exp()); })
                    .grad("tt::ex_backward")
                    .leading({"x"});
const auto ex_backward = tile::op("tt::ex_backward(Tensor? grad_y, Tensor y) -> (Tensor grad_x)")
                             .outputs([](const optional<Tensor>&, const Tensor& y) { return like(y); })
                             .run([](const optional<Tensor>& grad_y, const Tensor& y, Tensor& grad_x) {
                               grad_x.copy_(*grad_y * y);
                             })
                             .grad("tt::ex_backward_backward")
                             .leading({"grad_y", "y"});
const auto ex_backward_backward =
    tile::op(
        "tt::ex_backward_backward(Tensor? grad_grad_x, Tensor? grad_y, Tensor y) -> (Tensor grad_grad_y, "
        "Tensor grad_y)")
        .outputs([](const optional<Tensor>&, const optional<Tensor>&, const Tensor& y) {
          return Tensors{like(y), like(y)};
        })
        .run([](const optional<Tensor>& grad_grad_x, const optional<Tensor>& grad_y, const Tensor& y,
                Tensor& first, Tensor& second) {
          first.copy_(*grad_grad_x * y);
          second.copy_(*grad_grad_x * *grad_y);
        })
        .leading({"grad_grad_x", "grad_y", "y"});

// The gradient reads a hidden result only, and has a gradient itself, for the hidden result too.
const auto ex_hidden =
    tile::op("tt::ex_hidden(Tensor x) -> (Tensor y)")
        .saves("Tensor e, Tensor n")
        .outputs([](const Tensor& x) { return like(x); })
        .saved_outputs([](const Tensor& x) {
          return std::pair(like(x), at::empty_symint(x.sym_sizes(), x.options().dtype(at::kLong)));
        })
        .run([](const Tensor& x, Tensor& y, const optional<Tensor>& e, Tensor& n) {
          y.copy_(x.exp());
          if (e) e->copy_(y);
          if (n.defined()) n.fill_(1);
        })
        .grad("tt::ex_hidden_backward");
const auto ex_hidden_backward =
    tile::op("tt::ex_hidden_backward(Tensor? grad_y, Tensor? grad_e, Tensor e, Tensor n) -> (Tensor grad_x)")
        .outputs([](const optional<Tensor>&, const optional<Tensor>&, const Tensor& e, const Tensor&) {
          return like(e);
        })
        .run([](const optional<Tensor>& grad_y, const optional<Tensor>& grad_e, const Tensor& e,
                const Tensor& n, Tensor& grad_x) {
          grad_x.zero_();
          if (grad_y) grad_x.add_(*grad_y * e * n);
          if (grad_e) grad_x.add_(*grad_e * e * n);
        })
        .grad("tt::ex_hidden_twice");
const auto ex_hidden_twice =
    tile::op(
        "tt::ex_hidden_twice(Tensor grad_grad_x, Tensor? grad_y, Tensor? grad_e, Tensor e) -> (Tensor "
        "grad_grad_y, Tensor grad_grad_e, Tensor grad_e)")
        .outputs([](const Tensor&, const optional<Tensor>&, const optional<Tensor>&, const Tensor& e) {
          return Tensors{like(e), like(e), like(e)};
        })
        .run([](const Tensor& twice, const optional<Tensor>& grad_y, const optional<Tensor>& grad_e,
                const Tensor& e, Tensor& first, Tensor& second, Tensor& third) {
          first.copy_(twice * e), second.copy_(first), third.zero_();
          if (grad_y) third.add_(twice * *grad_y);
          if (grad_e) third.add_(twice * *grad_e);
        });

// Structs of parameters, one of them in another: references, views of lists and values.
struct Factors {
  double scale;
  optional<double> shift;
  at::IntArrayRef powers;
};
struct Weighted {
  const Tensor& x;
  const optional<Tensor>& weight;
  Factors factors;
  const std::string& name;
  std::array<bool, 2> both;
};
struct WeightedResults {
  Tensor &out, &sum;
};
const auto weighted =
    tile::op(
        "tt::weighted(Tensor x, Tensor? weight, float scale, float? shift, int[] powers, str name, "
        "bool[2] both) -> (Tensor out, Tensor sum)")
        .outputs([](const Weighted& of) {
          if (of.name != "known")
            tile::fail(tile::ErrorKind::value, "name is ", of.name, "; it must be known");
          return std::tuple(like(of.x), of.both[1] ? like(of.x) : Tensor());
        })
        .run([](const Weighted& of, const WeightedResults& results) {
          Tensor value = of.x * of.factors.scale + of.factors.shift.value_or(0);
          for (int64_t power : of.factors.powers) value = value * power;
          results.out.copy_(of.weight ? value * *of.weight : value);
          if (results.sum.defined()) results.sum.copy_(results.out + of.x);
        });

// Lists of tensors as arguments and as results.
const auto weigh = tile::op("tt::weigh(Tensor[] xs, Tensor?[] ys, float[] w) -> Tensor")
                       .outputs([](at::TensorList xs, const std::vector<optional<Tensor>>&,
                                   const std::vector<double>&) { return like(xs.at(0)); })
                       .run([](at::TensorList xs, const std::vector<optional<Tensor>>& ys,
                               const std::vector<double>& w, Tensor& out) {
                         out.zero_();
                         for (size_t i = 0; i < xs.size(); ++i)
                           out.add_(ys[i] ? xs[i] * *ys[i] * w[i] : xs[i] * w[i]);
                       })
                       .grad("tt::weigh_backward")
                       .leading({"xs", "ys"});
const auto weigh_backward =
    tile::op("tt::weigh_backward(Tensor grad_out, Tensor[] xs, Tensor?[] ys, float[] w) -> Tensor[] grad_xs")
        .outputs([](const Tensor&, at::TensorList xs, const std::vector<optional<Tensor>>&,
                    const std::vector<double>&) {
          Tensors grads;
          for (const Tensor& x : xs) grads.push_back(like(x));
          return grads;
        })
        .run([](const Tensor& grad_out, at::TensorList, const std::vector<optional<Tensor>>& ys,
                const std::vector<double>& w, const Tensors& grads) {
          for (size_t i = 0; i < grads.size(); ++i)
            grads[i].copy_(ys[i] ? grad_out * *ys[i] * w[i] : grad_out * w[i]);
        })
        .leading({"grad_out", "xs", "ys"});
const auto twins = tile::op("tt::twins(Tensor x) -> Tensor[]")
                       .outputs([](const Tensor& x) {
                         return Tensors{like(x), like(x)};
                       })
                       .run([](const Tensor& x, const Tensors& out) {
                         out[0].copy_(2 * x);
                         out[1].copy_(3 * x);
                       })
                       .grad("tt::twins_backward")
                       .leading({"x"});
const auto twins_backward =
    tile::op("tt::twins_backward(Tensor?[] grad_out, Tensor x) -> Tensor grad_x")
        .outputs([](const std::vector<optional<Tensor>>&, const Tensor& x) { return like(x); })
        .run([](const std::vector<optional<Tensor>>& grads, const Tensor&, Tensor& grad_x) {
          grad_x.zero_();
          if (grads[0]) grad_x.add_(2 * *grads[0]);
          if (grads[1]) grad_x.add_(3 * *grads[1]);
        });

// Writes into its arguments.
const auto scale_ = tile::op("tt::scale_(Tensor(a!) input, float factor, Tensor? mask=None) -> ()")
                        .run([](const Tensor& input, double factor, const optional<Tensor>& mask) {
                          if (mask)
                            input.mul_(1 + (factor - 1) * *mask);
                          else
                            input.mul_(factor);
                        })
                        .leading({"input", "mask"});
const auto zero_all_ = tile::op("tt::zero_all_(Tensor(a!)[] list) -> ()").run([](at::TensorList list) {
  for (const Tensor& tensor : list) tensor.zero_();
});

// vmap: fold, a loop, and a custom rule.
const auto center =
    tile::op("tt::center(Tensor input, Tensor? shift=None, int repeat=1) -> Tensor")
        .outputs([](const Tensor& input, const optional<Tensor>&, int64_t) {
          if (input.dim() != 3)
            tile::fail(tile::ErrorKind::value, "input has rank ", input.dim(), "; it must be 3");
          return like(input);
        })
        .run([](const Tensor& input, const optional<Tensor>& shift, int64_t, Tensor& out) {
          out.copy_(input - input.mean(-1, true));
          if (shift) out.add_(shift->unsqueeze(-1).unsqueeze(-1));
        })
        .fold({"input", "shift"});
const auto looped =
    tile::op("tt::looped(Tensor input) -> Tensor")
        .outputs([](const Tensor& input) { return at::empty_symint({input.sym_numel()}, input.options()); })
        .run([](const Tensor& input, Tensor& out) { out.copy_(input.flatten()); });
const auto ruled =
    tile::op("tt::ruled(Tensor input, Tensor weight) -> Tensor")
        .outputs([](const Tensor& input, const Tensor&) { return like(input); })
        .run([](const Tensor& input, const Tensor& weight, Tensor& out) { out.copy_(input * weight.sum()); })
        .vmap([](tile::VmapCall& call) {
          if (call.batched("weight")) return call.loop();
          Tensor input = call["input"].toTensor();
          call["input"] = input.flatten(0, 1);
          tile::VmapCall::Results results = call.call();
          results[0] = results[0].unflatten_symint(0, {call.size(), input.sym_size(1)});
          return results;
        });

// All other types of arguments.
const auto every =
    tile::op(
        "tt::every(Tensor x, SymInt n, Tensor? bias=None, str mode=\"zero\", ScalarType? dtype=None, Scalar "
        "s=1, int[2] w=[0,1], "
        "Tensor[]? extra=None, SymInt? m=None, SymInt[] shape=[], bool flag=False, float? f=None, int? "
        "i=None, str? t=None, "
        "bool[] bits=[], SymInt[]? more=None, Device? device=None) -> Tensor")
        .outputs([](const Tensor& x, const c10::SymInt& n, const optional<Tensor>&, std::string_view,
                    optional<at::ScalarType> dtype, const at::Scalar&, at::IntArrayRef,
                    const optional<Tensors>&, optional<c10::SymInt> m, c10::SymIntArrayRef shape, bool,
                    optional<double>, optional<int64_t>, const optional<std::string>&,
                    const std::vector<bool>&, const optional<std::vector<c10::SymInt>>&,
                    optional<at::Device> device) {
          auto sizes = x.sym_sizes().vec();
          sizes.back() = n;
          if (m) sizes.insert(sizes.begin(), *m);
          for (const c10::SymInt& extent : shape) sizes.insert(sizes.begin(), extent);
          return at::empty_symint(sizes, x.options().dtype(dtype).device(device.value_or(x.device())));
        })
        .run([](const Tensor& x, int64_t, const optional<Tensor>& bias, const std::string& mode,
                optional<at::ScalarType>, at::Scalar s, const std::vector<int64_t>& w,
                optional<Tensors> extra, optional<int64_t>, at::IntArrayRef, bool flag, optional<double> f,
                optional<int64_t> i, optional<std::string> t, const std::vector<bool>& bits,
                optional<std::vector<int64_t>> more, optional<at::Device>, Tensor& out) {
          out.fill_(mode == "zero" ? 0 : 1);
          out.narrow(-1, 0, x.size(-1)).add_(x * s);
          if (bias) out.add_(*bias);
          if (extra)
            for (const Tensor& tensor : *extra) out.add_(tensor.sum());
          out.add_(static_cast<double>(w[1] + 10 * flag) + f.value_or(0) +
                   static_cast<double>(i.value_or(0)) + static_cast<double>(t ? t->size() : 0) +
                   static_cast<double>(bits.size()) + static_cast<double>(more ? more->at(0) : 0));
        });

// Throws each kind of error.
const auto fails = tile::op("tt::fails(Tensor x, str kind) -> Tensor")
                       .outputs([](const Tensor& x, std::string_view) { return like(x); })
                       .run([](const Tensor&, const std::string& kind, Tensor&) {
                         using tile::ErrorKind;
                         tile::fail(kind == "value"         ? ErrorKind::value
                                    : kind == "type"        ? ErrorKind::type
                                    : kind == "unsupported" ? ErrorKind::unsupported
                                                            : ErrorKind::runtime,
                                    kind == "prefixed" ? "tt::fails: " : "", kind, "; try another");
                       });
const auto two = tile::op("tt::two(Tensor a, Tensor b) -> Tensor")
                     .outputs([](const Tensor& a, const Tensor&) { return like(a); })
                     .run([](const Tensor& a, const Tensor& b, Tensor& out) { out.copy_(a + b); });

}  // namespace
