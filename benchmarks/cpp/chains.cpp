// Chains of elementwise operations as a user would write them: bench::chain of six and bench::gelu_chain.
// Both compute in float32. `size` is the number of elements of a block; each value makes a separate kernel.
#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: kernels are written in the kernel language

// Returns a contiguous tensor as a vector.
ArrayArgument flat(const at::Tensor& tensor) {
  ArrayArgument array = at::to_array_argument(tensor);
  array.rank = 1;
  array.sizes[0] = tensor.numel();
  array.strides[0] = 1;
  return array;
}

void chain_kernel(Array x, Array y, Array out, int size) {
  const auto load = [&](Array array) { return array.tiled_view({size}).load({bid(0)}).astype(f32); };
  Tile a = load(x), b = load(y);
  out.tiled_view({size}).store({bid(0)}, maximum((a * 1.5 + b) * a - 0.25, 0.0) * b);
}
Kernel chain("bench_chain", chain_kernel);

const auto chain_of =
    op("bench::chain(Tensor x, Tensor y, int size) -> Tensor out")
        .outputs([](const at::Tensor& x, const at::Tensor&, int64_t) { return result_like(x); })
        .run([](const at::Tensor& x, const at::Tensor& y, int64_t size, at::Tensor& out) {
          chain.launch({ceil_div(x.numel(), size)}, flat(x), flat(y), flat(out), static_cast<int>(size));
        });

void gelu_kernel(Array x, Array out, int size) {
  Tile a = x.tiled_view({size}).load({bid(0)}).astype(f32);
  Tile inner = 0.7978845608 * (a + 0.044715 * a * a * a);
  out.tiled_view({size}).store({bid(0)}, 0.5 * a * (1.0 + tanh(inner)));
}
Kernel gelu("bench_gelu_chain", gelu_kernel);

const auto gelu_of =
    op("bench::gelu_chain(Tensor x, int size) -> Tensor out")
        .outputs([](const at::Tensor& x, int64_t) { return result_like(x); })
        .run([](const at::Tensor& x, int64_t size, at::Tensor& out) {
          gelu.launch({ceil_div(x.numel(), size)}, flat(x), flat(out), static_cast<int>(size));
        });

}  // namespace
