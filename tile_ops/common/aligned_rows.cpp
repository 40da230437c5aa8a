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

}  // namespace

at::Tensor copy_in_aligned_rows(const at::Tensor& matrices) {
  at::Tensor rows = at::empty(aligned_sizes(matrices), matrices.options()).narrow(-1, 0, matrices.size(-1));
  return rows.copy_(matrices);
}

int64_t bytes_in_aligned_rows(const at::Tensor& matrices) {
  int64_t bytes = static_cast<int64_t>(matrices.element_size());
  for (const int64_t extent : aligned_sizes(matrices)) bytes *= extent;
  return bytes;
}

}  // namespace tile
