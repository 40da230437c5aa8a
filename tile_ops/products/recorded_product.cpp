// The gradients of products, in the record of an operator's run.
#include "recorded_product.h"

#include "tile/own_gradient.h"

namespace tile {
namespace {

using at::Tensor;

// out = alpha * (x @ y) + bias + residual, or x[0] @ y + x[1] @ other.
struct Terms {
  Tensor x, y, bias, residual, other;
  double alpha;

  // With a second product, that of either half.
  Tensor half(int64_t which) const { return other.defined() ? x.select(0, which) : x; }
  std::vector<Tensor> read() const {
    std::vector<Tensor> list;
    for (const Tensor* each : all())
      if (each->defined()) list.push_back(*each);
    return list;
  }
  std::vector<Tensor> gradients(Tensor incoming, const std::vector<bool>& wanted) const {
    std::vector<Tensor> list;
    size_t k = 0;
    for (const Tensor* each : all()) {
      if (!each->defined()) continue;
      list.push_back(wanted.at(k++) ? gradient(*each, incoming) : Tensor());
    }
    return list;
  }

 private:
  std::array<const Tensor*, 5> all() const { return {&x, &y, &bias, &residual, &other}; }

  // The incoming gradient has extent 1 where out is summed.
  Tensor expanded(const Tensor& incoming) const {
    const Tensor first = half(0);
    std::vector<int64_t> sizes;
    const int64_t rank = std::max({first.dim(), y.dim(), incoming.dim()});
    for (int64_t axis = rank; axis > 2; --axis) {
      int64_t size = 1;
      for (const Tensor* each : {&first, &y, &incoming})
        if (axis <= each->dim() && each->size(-axis) != 1) size = each->size(-axis);
      sizes.push_back(size);
    }
    sizes.push_back(first.size(-2)), sizes.push_back(y.size(-1));
    return incoming.expand(sizes);
  }
  Tensor gradient(const Tensor& of, const Tensor& incoming) const {
    const Tensor own = at::empty(of.sizes(), of.options());
    if (&of == &bias || &of == &residual) {
      sum_to(incoming, own);
      return own;
    }
    Tensor g = expanded(incoming);
    if (g.scalar_type() != of.scalar_type()) g = at::empty(g.sizes(), of.options()).copy_(g);
    if (&of == &y || &of == &other) {
      multiply(half(&of == &y ? 0 : 1).transpose(-2, -1), g, own, {.alpha = alpha});
    } else if (!other.defined()) {
      multiply(g, y.transpose(-2, -1), own, {.alpha = alpha});
    } else {
      multiply(g, y.transpose(-2, -1), own.select(0, 0), {.alpha = alpha});
      multiply(g, other.transpose(-2, -1), own.select(0, 1), {.alpha = alpha});
    }
    return own;
  }
};

void record(const char* name, Terms terms, const Tensor& written, std::function<void()> run) {
  std::vector<Tensor> read = terms.read();
  record_step({name, std::move(read), written, std::move(run),
               [terms = std::move(terms)](const Tensor& incoming, const std::vector<bool>& wanted) {
                 return terms.gradients(incoming, wanted);
               }});
}

}  // namespace

void record_product(const Tensor& x, const Tensor& y, const Tensor& out, const Epilogue& epilogue) {
  if (epilogue.activation != Activation::none || epilogue.expression || epilogue.pre.defined() ||
      epilogue.accumulate || epilogue.second == Second::factor)
    fail(ErrorKind::unsupported,
         "a product with an activation, a text, a factor or a sum in its result has no derived gradient; "
         "compute these in launches of their own");
  record("product", {x, y, epilogue.bias, epilogue.residual, epilogue.other, epilogue.alpha}, out,
         [=] { multiply(x, y, out, epilogue); });
}

Tensor product_again(const Tensor& pre, const Tensor& x, const Tensor& y, const Tensor& bias, double alpha) {
  const Tensor again = at::empty(pre.sizes(), pre.options());
  record("product_again", {x, y, bias, Tensor(), Tensor(), alpha}, again, [=] { Tensor(again).copy_(pre); });
  return again;
}

}  // namespace tile
