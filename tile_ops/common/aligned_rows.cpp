// Copies of tensors that a GPU's copy unit cannot read where they are.
#include "aligned_rows.h"

namespace tile {
namespace {

std::vector<int64_t> aligned_sizes(const at::Tensor& matrices) {
  const int64_t vector = 16 / static_cast<int64_t>(matrices.element_size());
  std::vector<int64_t> sizes = matrices.sizes().vec();
  sizes.back() = ceil_div(sizes.back(), vector) * vector;
  return sizes;
}

// Both sides are read and written along their rows, by way of a tile in shared memory.
void transposed_copy_kernel(Array from, Array out, int side) {
  Tile i = bid(1), j = bid(0);
  out.tiled_view({side, side}).store({i, j}, from.tiled_view({side, side}).load({j, i}).permute({1, 0}));
}
Kernel transposed_copy("transposed_copy", transposed_copy_kernel);

}  // namespace

at::Tensor copy_in_aligned_rows(const at::Tensor& matrices) {
  at::Tensor rows = at::empty(aligned_sizes(matrices), matrices.options()).narrow(-1, 0, matrices.size(-1));
  const bool crosses = matrices.dim() == 2 && matrices.stride(0) == 1 && matrices.stride(1) != 1;
  if (matrices.is_cpu() || !crosses || matrices.scalar_type() != at::kFloat || matrices.numel() == 0)
    return rows.copy_(matrices);
  constexpr int side = 64;
  transposed_copy.launch({ceil_div(matrices.size(1), side), ceil_div(matrices.size(0), side), 1},
                         matrices.t(), rows, side);
  return rows;
}

int64_t bytes_in_aligned_rows(const at::Tensor& matrices) {
  int64_t bytes = static_cast<int64_t>(matrices.element_size());
  for (const int64_t extent : aligned_sizes(matrices)) bytes *= extent;
  return bytes;
}

}  // namespace tile
