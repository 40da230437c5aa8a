// The header for LibTorch programs that launch CUDA C++ kernels: tile::RawKernel over at::Tensor.
#pragma once
#include "raw_cuda/raw_kernel.h"
#include "torch/raw_argument.h"

extern "C" int tile_ops_anchor();

namespace tile::detail {

// Refers to the library, so that no linker drops it.
[[maybe_unused]] inline const int keep_tile_ops = tile_ops_anchor();

}  // namespace tile::detail
