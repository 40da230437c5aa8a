"""The host's time of a launch of a kernel of CUDA C++: tile_ops.cuda_kernel beside torch.cuda._compile_kernel. Needs a GPU."""

import time

import tile_ops
import torch

SOURCE = """extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""
COUNT, ROUNDS = 500, 20


def nanoseconds(call):
    """Of one call: the least of several rounds, each short enough that the GPU's queue never fills."""
    best = float("inf")
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(COUNT):
            call()
        best = min(best, (time.perf_counter_ns() - start) / COUNT)
    return best


def main():
    x, y = torch.randn(2, 256, device="cuda")
    # torch passes a Python float as a double and an int as an int.
    theirs = torch.cuda._compile_kernel(SOURCE.replace("float a", "double a"), "saxpy")
    ours = tile_ops.cuda_kernel(SOURCE, "saxpy")
    print(f"tile_ops.cuda_kernel        {nanoseconds(lambda: ours[1, 256](2.5, x, y, 256)):8.0f} ns")
    print(f"torch.cuda._compile_kernel  {nanoseconds(lambda: theirs((1, 1, 1), (256, 1, 1), [2.5, x, y, 256])):8.0f} ns")


if __name__ == "__main__":
    main()
