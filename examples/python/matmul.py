"""Product of matrices with its gradients.

A block computes a tile of the result and walks over the inner extent. The gradients are the same kernel on transposed
views: a tile is loaded from strided memory as well."""

import tile_ops
import tile_ops.language as tl
import torch

ZERO = tl.PaddingMode.ZERO


@tl.kernel
def matmul_kernel(a, b, out, TM: tl.Constant[int], TN: tl.Constant[int], TK: tl.Constant[int]):
    i, j = tl.bid(0), tl.bid(1)
    total = tl.zeros((TM, TN), tl.float32)
    for k in range(tl.num_tiles(a, 1, (TM, TK))):
        left = tl.load(a, (i, k), (TM, TK), padding_mode=ZERO)
        total = tl.mma(left, tl.load(b, (k, j), (TK, TN), padding_mode=ZERO), total)
    tl.store(out, (i, j), total.astype(out.dtype))


def fill(a, b, out):
    """out = a @ b."""
    tiles = (128, 128, 64) if a.dtype != torch.float32 and a.is_cuda else (64, 64, 32)
    matmul_kernel[tl.cdiv(out.shape[0], tiles[0]), tl.cdiv(out.shape[1], tiles[1])](a, b, out, *tiles)


@tile_ops.op("programs::matmul(Tensor a, Tensor b) -> Tensor", autocast="lower")
class matmul:
    """a b. a: [rows, inner], b: [inner, columns], both float32, float16 or bfloat16, of any strides; sums are of float32.
    Error: ValueError where shapes or dtypes do not fit."""

    def outputs(a, b):
        if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
            raise ValueError(
                f"matmul: a is {list(a.shape)} of {a.dtype}, b {list(b.shape)} of {b.dtype}; "
                "pass [rows, inner] and [inner, columns] of one dtype"
            )
        return a.new_empty(a.shape[0], b.shape[1])

    def run(a, b, out):
        fill(a, b, out)

    class grad:
        def outputs(a, b):
            return a.new_empty(a.shape), b.new_empty(b.shape)

        def run(grad_out, a, b, grad_a, grad_b):
            fill(grad_out, b.mT, grad_a)
            fill(a.mT, grad_out, grad_b)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(*size, device=device, requires_grad=True) for size in ((300, 200), (200, 500)))
    torch.testing.assert_close(matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    matmul(a, b).square().sum().backward()
    print("product of", list(a.shape), "and", list(b.shape), "and its gradients are there:", a.grad.norm().item())
