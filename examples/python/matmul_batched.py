"""Products of many matrices with their gradients: leading extents are broadcast, as torch.matmul's are.

The grid's third axis is the matrix. One that all share is read again and again, at stride 0; its gradient is a sum."""

import tile_ops
import tile_ops.language as tl
import torch

ZERO = tl.PaddingMode.ZERO


@tl.kernel
def matmul_kernel(a, b, out, TM: tl.Constant[int], TN: tl.Constant[int], TK: tl.Constant[int]):
    i, j, n = tl.bid(0), tl.bid(1), tl.bid(2)
    total = tl.zeros((1, TM, TN), tl.float32)
    for k in range(tl.num_tiles(a, 2, (1, TM, TK))):
        left = tl.load(a, (n, i, k), (1, TM, TK), padding_mode=ZERO)
        total = tl.mma(left, tl.load(b, (n, k, j), (1, TK, TN), padding_mode=ZERO), total)
    tl.store(out, (n, i, j), total.astype(out.dtype))


def fill(a, b, out):
    """out = a @ b, leading extents broadcast."""
    a, b = (each.expand(*out.shape[:-2], *each.shape[-2:]).reshape(-1, *each.shape[-2:]) for each in (a, b))
    out = out.view(-1, *out.shape[-2:])
    tiles = (128, 128, 64) if a.dtype != torch.float32 and a.is_cuda else (64, 64, 32)
    matmul_kernel[tl.cdiv(out.shape[1], tiles[0]), tl.cdiv(out.shape[2], tiles[1]), len(out)](a, b, out, *tiles)


@tile_ops.op("programs::matmul_batched(Tensor a, Tensor b) -> Tensor", autocast="lower")
class matmul_batched:
    """a b of each matrix. a: [..., rows, inner], b: [..., inner, columns], both float32, float16 or bfloat16; sums are of
    float32. Error: ValueError where shapes or dtypes do not fit."""

    def outputs(a, b):
        if a.dim() < 2 or b.dim() < 2 or a.shape[-1] != b.shape[-2] or a.dtype != b.dtype:
            raise ValueError(
                f"matmul_batched: a is {list(a.shape)} of {a.dtype}, b {list(b.shape)} of {b.dtype}; "
                "pass [..., rows, inner] and [..., inner, columns] of one dtype"
            )
        return a.new_empty(*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])

    def run(a, b, out):
        fill(a, b, out)

    def grad(grad_out, a, b):
        return matmul_batched(grad_out, b.mT).sum_to_size(a.shape), matmul_batched(a.mT, grad_out).sum_to_size(b.shape)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(*size, device=device, requires_grad=True) for size in ((4, 3, 100, 70), (3, 70, 90)))
    torch.testing.assert_close(matmul_batched(a, b), a @ b, rtol=1e-4, atol=1e-4)
    matmul_batched(a, b).square().sum().backward()
    print("products of", list(a.shape), "and", list(b.shape), "and their gradients are there:", b.grad.norm().item())
