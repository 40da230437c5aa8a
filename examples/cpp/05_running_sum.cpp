// Running sums of a vector in one launch: blocks take tickets, publish the sum of their part, and look back
// at the sums of earlier blocks. Merrill and Garland, "Single-pass parallel prefix scan with decoupled
// look-back", 2016.
#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

constexpr int part = 2048;

// Sums are float64. state of a part: 0, nothing is known; 1, its own sum is known; 2, the sum of all parts up
// to it is known, too.
void running_sum_kernel(Array x, Array out, Array ticket, Array state, Array own, Array all, bool reverse) {
  // A block with an earlier ticket already runs, so waiting for it ends.
  Tile mine = atomic_add(ticket, {0}, 1, {.order = MemoryOrder::relaxed});
  Tile last = state.dim(0) - 1, at = reverse ? last - mine : mine;
  Tile tile = x.tiled_view({part}).load({at}).astype(f64);
  Tile sum = tile.sum(0), before = full({}, 0, f64);
  scatter(own, {mine}, sum);
  atomic_store(state, {mine}, 1);
  Tile back = mine - 1;
  while_loop([&] { return back >= 0; },
             [&] {
               Tile known = atomic_load(state, {back});
               when(known == 2, [&] {
                 before += gather(all, {back});
                 break_loop();
               });
               when(known == 1, [&] {
                 before += gather(own, {back});
                 back -= 1;
               });
             });
  scatter(all, {mine}, before + sum);
  atomic_store(state, {mine}, 2);
  Tile sums = scan(tile, 0, [](Tile a, Tile b) { return a + b; }, reverse);
  out.tiled_view({part}).store({at}, sums + before);
}
Kernel running_sum("running_sum", running_sum_kernel);

void launch(const at::Tensor& x, at::Tensor& out, bool reverse) {
  const int64_t parts = ceil_div(x.size(0), part);
  if (parts == 0) return;
  const at::Tensor known = at::empty({parts + 1}, x.options().dtype(at::kInt)).zero_(),
                   sums = at::empty({2, parts}, x.options().dtype(at::kDouble));
  running_sum.launch({parts}, x, out, known.narrow(0, parts, 1), known.narrow(0, 0, parts), sums[0], sums[1], reverse);
}

const auto running_sum_ =
    op("examples::running_sum(Tensor x) -> Tensor out")
        .outputs([](const at::Tensor& x) {
          if (x.dim() != 1) fail(ErrorKind::value, "x is ", x.sym_sizes(), "; pass a vector");
          return at::empty_like(x);
        })
        .run([](const at::Tensor& x, at::Tensor& out) { launch(x, out, false); })
        .grad("examples::running_sum_backward");

// Each element contributes to all sums from its own on.
const auto running_sum_backward_ =
    op("examples::running_sum_backward(Tensor grad_out) -> Tensor grad_x")
        .outputs([](const at::Tensor& grad_out) { return at::empty_like(grad_out); })
        .run([](const at::Tensor& grad_out, at::Tensor& grad_x) { launch(grad_out, grad_x, true); });

}  // namespace
