// For LibTorch programs that launch kernels given as CUDA C++: tile::RawKernel over
// at::Tensor.
#pragma once
#include "raw_cuda/raw_kernel.h"
#include "torch/raw_argument.h"

extern "C" int tile_ops_anchor();

namespace tile::detail {

// No linker may drop the library.
[[maybe_unused]] inline const int keep_tile_ops = tile_ops_anchor();

}  // namespace tile::detail
