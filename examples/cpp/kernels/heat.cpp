// The heat equation du/dt = a (d2u/dx2 + d2u/dy2) on a plate whose edges keep their temperature: a stencil.
#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

// One explicit step of every inner point; r is a dt / dx^2. The neighbours of the inner points are the same
// matrix, shifted by one row or column: no tile needs a halo, and a cache serves four of the five loads.
void heat_kernel(Array u, Array out, Tile r, int rows, int columns) {
  Tile i = bid(1), j = bid(0), height = u.dim(0), width = u.dim(1);
  const auto inner = [&](const Array& array, int down, int right) {
    return array.slice(0, 1 + down, height - 1 + down)
        .slice(1, 1 + right, width - 1 + right)
        .tiled_view({rows, columns});
  };
  const auto at = [&](int down, int right) { return inner(u, down, right).load({i, j}); };
  Tile centre = at(0, 0);
  Tile around = at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1);
  inner(out, 0, 0).store({i, j}, centre + r.astype(u.dtype()) * (around - 4.0 * centre));
}
Kernel heat_step("heat_step", heat_kernel);

// Initialises both plates, which alternate, with u.
void begin_kernel(Array u, Array one, Array two, int rows, int columns) {
  Tile tile = u.tiled_view({rows, columns}).load({bid(1), bid(0)});
  for (Array plate : {one, two}) plate.tiled_view({rows, columns}).store({bid(1), bid(0)}, tile);
}
Kernel heat_begin("heat_begin", begin_kernel);

const auto heat =
    op("kernels::heat(Tensor u, float r, int steps) -> Tensor out")
        .outputs([](const at::Tensor& u, double r, int64_t steps) {
          if (u.dim() != 2) fail(ErrorKind::value, "u is ", u.sym_sizes(), "; pass a matrix");
          if (!(r > 0 && r <= 0.25))
            fail(ErrorKind::value, "r is ", r, "; steps are stable for 0 < r <= 0.25");
          if (steps < 0) fail(ErrorKind::value, "steps is ", steps, "; pass 0 or more");
          return at::empty_like(u);
        })
        .run([](const at::Tensor& u, double r, int64_t steps, at::Tensor& out) {
          const int rows = u.is_cpu() ? 64 : 8, columns = u.is_cpu() ? 512 : 256;
          const auto blocks = [&](int64_t edge) {
            return Grid{ceil_div(u.size(1) - edge, columns), ceil_div(u.size(0) - edge, rows)};
          };
          // Two plates alternate. The last step writes to `out`.
          at::Tensor now = at::empty_like(out), next = out;
          heat_begin.launch(blocks(0), u, now, next, rows, columns);
          if (steps % 2 == 0) std::swap(now, next);
          if (u.size(0) <= 2 || u.size(1) <= 2) return;
          for (int64_t step = 0; step < steps; ++step, std::swap(now, next))
            heat_step.launch(blocks(2), now, next, r, rows, columns);
        });

}  // namespace
