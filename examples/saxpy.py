"""NVRTC's classic example: saxpy from a string of CUDA C++, launched, and made a torch operator."""

import tile_ops
import torch

SOURCE = """
__global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

template <class T, int N>
__global__ void power(const T* x, T* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T product = 1;
  for (int k = 0; k < N; ++k) product *= x[i];
  out[i] = product;
}
"""

saxpy, cube = tile_ops.cuda_kernel(SOURCE, ["saxpy", "power<float, 3>"], file="saxpy.cu")


def blocks(n):
    return (n + 255) // 256


# Maps the operator's arguments and results to the kernel's arguments.
torch_cube = cube.as_op(
    "examples::cube(Tensor x) -> Tensor",
    outputs=lambda x: torch.empty_like(x, memory_format=torch.contiguous_format),
    arguments=lambda x, out: (x.contiguous(), out, x.numel()),
    grid=lambda x, out: blocks(x.numel()),
    block=256,
)
torch.library.register_autograd(
    "examples::cube",
    lambda ctx, grad: 3 * ctx.saved_tensors[0] ** 2 * grad,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


def main():
    if not torch.cuda.is_available():
        print(f"no GPU here; for an H100 the kernels compile: {saxpy.parameters(90)}, {cube.parameters(90)}")
        return
    n = 1_000_003
    x, y = torch.randn(2, n, device="cuda")
    expected = 2.5 * x + y
    saxpy[blocks(n), 256](2.5, x, y, n)
    torch.testing.assert_close(y, expected)
    x.requires_grad_()
    torch_cube(x).sum().backward()
    torch.testing.assert_close(x.grad, 3 * x.detach() ** 2)
    print(f"saxpy and cube are right on {torch.cuda.get_device_name()}")


if __name__ == "__main__":
    main()
