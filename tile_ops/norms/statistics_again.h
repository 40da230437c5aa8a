// Saved statistics as functions of what they are of, for gradients of gradients.
#pragma once
#include <optional>

#include "tile/op.h"

namespace tile {

struct RowStatistics {
  std::optional<at::Tensor> mean;
  at::Tensor rstd;
};
// Returns the saved statistics of rows, the last `axes` axes of the input, from a kernel that reads the
// input: equal numbers, but derivatives of them reach the input.
RowStatistics statistics_again(size_t axes, const at::Tensor& input, const RowStatistics& saved);

}  // namespace tile
