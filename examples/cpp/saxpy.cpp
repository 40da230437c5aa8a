// NVRTC's classic example in C++: saxpy from a string, launched over at::Tensor, without a CUDA toolkit.
#include <torch/cuda.h>
#include <torch/types.h>

#include <cstdio>

#include "tile/raw_kernel.h"

const tile::RawKernel saxpy(R"(
__global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
)",
                            "saxpy", {.file = "saxpy.cu"});

int main() try {
  if (!torch::cuda::is_available()) {
    std::printf("no GPU here; for an H100 saxpy compiles, with %zu parameters\n", saxpy.compiled(90).parameters.size());
    return 0;
  }
  const int64_t n = 1'000'003;
  const at::Tensor x = torch::randn(n, at::kCUDA), y = torch::randn(n, at::kCUDA), expected = 2.5 * x + y;
  saxpy.launch({{(n + 255) / 256}, {256}}, 2.5, x, y, n);
  // The kernel rounds once, torch's two operations twice, so they may differ in the last digit.
  const bool right = at::allclose(y, expected, 1e-5, 1e-6);
  std::printf("saxpy is %s\n", right ? "right" : "wrong");
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
