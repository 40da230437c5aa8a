"""Product of two matrices, with gradients computed by the same kernel.

A block computes a tile of the product, looping along the shared extent. It accumulates in float32, and float32 factors
are not rounded. Blocks that run concurrently compute neighbouring tiles, so that their inputs stay in the cache. Order
of tiles: Tillet et al., "Triton: an intermediate language and compiler for tiled neural network computations", 2019."""

import tile_ops
import tile_ops.language as tl
import torch

ZERO = tl.PaddingMode.ZERO


def tile_index(i, rows, columns, group=8):
    """Returns row and column of the i-th tile: column by column through `group` rows of tiles, then through the next
    ones."""
    first, inside = i // (group * columns) * group, i % (group * columns)
    height = min(group, rows - first)
    return first + inside % height, inside // height


@tl.kernel
def matmul_kernel(a, b, out, TM: tl.Constant[int], TN: tl.Constant[int], TK: tl.Constant[int]):
    i, j = tile_index(tl.bid(0), tl.num_tiles(out, 0, (TM, TN)), tl.num_tiles(out, 1, (TM, TN)))
    acc = tl.zeros((TM, TN), tl.float32)
    for k in range(tl.num_tiles(a, 1, (TM, TK))):
        left = tl.load(a, (i, k), (TM, TK), padding_mode=ZERO)
        acc = tl.mma(left, tl.load(b, (k, j), (TK, TN), padding_mode=ZERO), acc)
    tl.store(out, (i, j), acc.astype(out.dtype))


def tiles(x):
    """Returns extents of tiles along m, n and k that suit the device."""
    return (64, 64, 64) if x.is_cpu else (128, 64, 32) if x.dtype == torch.float32 else (128, 128, 64)


@tile_ops.op("programs::matmul(Tensor a, Tensor b) -> Tensor")
class matmul:
    """a @ b, with differentiable gradients.

    a: [m, k]; b: [k, n]; both float32, float16 or bfloat16, of any strides. Accumulates in float32. Error: ValueError
    if shapes or dtypes do not fit."""

    autocast = "lower"

    def outputs(a, b):
        if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
            raise ValueError(f"matmul: a is {list(a.shape)}, b {list(b.shape)}; pass [m, k] and [k, n]")
        if a.dtype not in (torch.float32, torch.float16, torch.bfloat16) or b.dtype != a.dtype:
            raise ValueError(f"matmul: a is {a.dtype}, b {b.dtype}; pass one of float32, float16 and bfloat16")
        return a.new_empty(a.shape[0], b.shape[1])

    def run(a, b, out):
        tm, tn, tk = tiles(a)
        matmul_kernel[tl.cdiv(out.shape[0], tm) * tl.cdiv(out.shape[1], tn)](a, b, out, tm, tn, tk)

    def grad(grad_out, a, b):
        return matmul(grad_out, b.mT), matmul(a.mT, grad_out)

    def flops(a, b):
        return 2 * a.shape[0] * a.shape[1] * b.shape[1]


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(500, 500, device=device, requires_grad=True) for _ in range(2))
    torch.testing.assert_close(matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    matmul(a, b).square().sum().backward()
    print("the product of", list(a.shape), "and", list(b.shape), "and its gradients are there:", a.grad.norm().item())
