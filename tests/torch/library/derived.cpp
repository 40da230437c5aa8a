// Operators whose gradients the compiler derives, and runs of which it derives none.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "tile/op.h"

namespace {

using namespace tile;  // NOLINT: kernels are written in the language
using at::Tensor;

Tensor like_first(const Tensor& x) { return at::empty_like(x, at::MemoryFormat::Contiguous); }

// Rows of one tile each.
void norm_kernel(Array x, Array w, Array out, int columns) {
  Tile t = x.tiled_view({1, columns}).load({bid(0), 0}), n = x.dim(1).astype(x.dtype());
  Tile r = 1 / sqrt((t * t).sum(1, true) / n + 1e-5);
  out.tiled_view({1, columns}).store({bid(0), 0}, t * r * w.tiled_view({columns}).load({0}).expand_dims(0));
}
Kernel norm_of("derived_norm", norm_kernel);

const auto norm = op("tt::derived_norm(Tensor x, Tensor w) -> Tensor out")
                      .outputs([](const Tensor& x, const Tensor&) { return like_first(x); })
                      .run([](const Tensor& x, const Tensor& w, Tensor& out) {
                        norm_of.launch({x.size(0)}, x, w, out, 64);
                      })
                      .grad_by_compiler();

void sine_kernel(Array x, Array out) {
  out.tiled_view({64}).store({bid(0)}, sin(x.tiled_view({64}).load({bid(0)})));
}
void product_kernel(Array x, Array y, Array out) {
  const auto tiled = [](const Array& array) { return array.tiled_view({64}); };
  tiled(out).store({bid(0)}, tiled(x).load({bid(0)}) * tiled(y).load({bid(0)}));
}
Kernel sine_of("derived_sine", sine_kernel);
Kernel product_of("derived_product", product_kernel);
Grid blocks_of(const Tensor& x) { return {(x.numel() + 63) / 64}; }

// Steps through memory of its own, copies of torch between launches, and views: sin(x) x, of which the end is
// multiplied by the beginning, in `kind` "scratch".
const auto steps = op("tt::derived_steps(Tensor x, str kind) -> Tensor out")
                       .outputs([](const Tensor& x, const std::string&) { return like_first(x); })
                       .run([](const Tensor& x, const std::string& kind, Tensor& out) {
                         const Tensor flat = x.reshape({-1}), all = out.view({-1}),
                                      sine = at::empty_like(flat);
                         if (kind == "scratch") {
                           sine_of.launch(blocks_of(flat), flat, sine);
                           const Tensor copy = at::zeros(flat.sizes(), flat.options()).copy_(sine);
                           product_of.launch(blocks_of(flat), copy, flat, all);
                         } else if (kind == "torch") {
                           product_of.launch(blocks_of(flat), flat * 2, flat, all);
                         } else if (kind == "overwritten") {
                           const Tensor zeros = at::zeros(flat.sizes(), flat.options());
                           product_of.launch(blocks_of(flat), zeros, flat, all);
                           sine_of.launch(blocks_of(flat), flat, zeros);
                         } else if (kind == "written twice") {
                           sine_of.launch(blocks_of(flat), flat, all);
                           product_of.launch(blocks_of(flat), flat, flat, all);
                         } else if (kind == "filled") {
                           sine_of.launch(blocks_of(flat), flat, all);
                           all.zero_();
                         } else if (kind == "in place") {
                           all.copy_(flat);
                           product_of.launch(blocks_of(flat), all, flat, all);
                         } else if (kind == "repeated") {
                           sine_of.launch({blocks_of(flat).x, 2}, flat, all);
                         }
                       })
                       .grad_by_compiler();

// A loop whose end depends on what it computes.
void halved_kernel(Array x, Array out) {
  Tile t = x.tiled_view({64}).load({bid(0)});
  while_loop([&] { return t.max() > 1; }, [&] { t = t * 0.5; });
  out.tiled_view({64}).store({bid(0)}, t);
}
Kernel halved_of("derived_halved", halved_kernel);
const auto halved = op("tt::derived_halved(Tensor x) -> Tensor out")
                        .outputs(like_first)
                        .run([](const Tensor& x, Tensor& out) { halved_of.launch(blocks_of(x), x, out); })
                        .grad_by_compiler();

// Bits of floats have no derivative.
void bits_kernel(Array x, Array out) {
  Tile t = x.tiled_view({64}).load({bid(0)});
  out.tiled_view({64}).store({bid(0)}, t.bitcast(DType::i64).bitcast(DType::f64));
}
Kernel bits_of("derived_bits", bits_kernel);
const auto bits = op("tt::derived_bits(Tensor x) -> Tensor out")
                      .outputs(like_first)
                      .run([](const Tensor& x, Tensor& out) { bits_of.launch(blocks_of(x), x, out); })
                      .grad_by_compiler();

// Adds picked elements up: only atomics can add their gradients.
void picked_kernel(Array x, Array indices, Array out) {
  Tile at = indices.tiled_view({64}).load({bid(0)});
  out.tiled_view({64}).store({bid(0)}, gather(x, {at}));
}
Kernel picked_of("derived_picked", picked_kernel);
const auto picked = op("tt::derived_picked(Tensor x, Tensor indices, Tensor? seed=None) -> Tensor out")
                        .outputs([](const Tensor& x, const Tensor& indices, const std::optional<Tensor>&) {
                          return at::empty_symint(indices.sym_sizes(), x.options());
                        })
                        .run([](const Tensor& x, const Tensor& indices, const std::optional<Tensor>&,
                                Tensor& out) { picked_of.launch(blocks_of(indices), x, indices, out); })
                        .grad_by_compiler({"seed"});

}  // namespace
