// Tests runs whose launches save tiles for their gradients, beside launches of kernels that save nothing.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "runtime/text_kernel.h"
#include "tile/op.h"
#include "torch/args.h"

namespace {

using namespace tile;  // NOLINT: kernels are written in the language
using at::Tensor;

// Adds exp(x w) to the result, of which the sums of long rows are worth saving.
void add_kernel(Array x, Array w, Array out) {
  const View xs = x.tiled_view({32, 16}), ws = w.tiled_view({16, 32});
  Tile total = zeros({32, 32}, DType::f32);
  for (Tile k : range(cdiv(x.dim(1), 16))) total = mma(xs.load({bid(0), k}), ws.load({k, bid(1)}), total);
  atomic_add(out, {arange(32).expand_dims(1), arange(32).expand_dims(0)}, exp(total));
}
Kernel add_of("saving_run_add", add_kernel);

// Adds 1 to each element of the first tile.
constexpr const char* increment = R"(kernel increment(%0: array<f32,2>) {
  %1: i32 = constant {dtype=i32, value=0}
  %2: f32[32,32] = load %0, %1, %1 {pad=0.0, shape=[32,32], steps=[32,32]}
  %3: f32 = constant {dtype=f32, value=1.0}
  %4: f32[32,32] = broadcast %3 {shape=[32,32]}
  %5: f32[32,32] = add %2, %4
  store %0, %5, %1, %1 {steps=[32,32]}
}
)";

int runs = 0;
const auto sum = op("tcpp::saving_run_sum(Tensor x, Tensor w) -> Tensor")
                     .outputs([](const Tensor& x, const Tensor&) {
                       return at::zeros({32, 32}, x.options());
                     })
                     .run([](const Tensor& x, const Tensor& w, Tensor& out) {
                       static const TextKernel text(increment);
                       ++runs;
                       add_of.launch({1}, x, w, out);
                       text.launch({1}, {to_array_argument(out)});
                     })
                     .grad_by_compiler();

TEST(SavingRun, RunsOnceBesideKernelsOfText) {
  const Tensor x = at::zeros({32, 1024}).requires_grad_(), w = at::ones({1024, 32}).requires_grad_();
  runs = 0;
  const Tensor out = sum.call(x, w);
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(out.requires_grad());
  EXPECT_EQ(out.min().item<float>(), 2);
  EXPECT_EQ(out.max().item<float>(), 2);
  EXPECT_THROW(out.sum().backward(), c10::Error);  // the gradient is not derived
}

}  // namespace
