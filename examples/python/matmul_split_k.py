"""Product of two matrices whose long shared extent is split among blocks, with its gradients.

If the product has fewer tiles than the device has processors, several blocks compute one tile, each from a part of the
shared extent, and write partial sums in float32; a second kernel adds them in order. No atomics are used, so results do
not depend on timing."""

import tile_ops
import tile_ops.language as tl
import torch

ZERO = tl.PaddingMode.ZERO


@tl.kernel
def matmul_kernel(a, b, parts, TM: tl.Constant[int], TN: tl.Constant[int], TK: tl.Constant[int]):
    split, i, j = tl.bid(0), tl.bid(1), tl.bid(2)
    acc = tl.zeros((TM, TN), tl.float32)
    for k in range(split, tl.num_tiles(a, 1, (TM, TK)), tl.num_blocks(0)):
        left = tl.load(a, (i, k), (TM, TK), padding_mode=ZERO)
        acc = tl.mma(left, tl.load(b, (k, j), (TK, TN), padding_mode=ZERO), acc)
    tl.store(parts, (split, i, j), acc.reshape((1, TM, TN)))


@tl.kernel
def sum_kernel(parts, out, R: tl.Constant[int], C: tl.Constant[int]):
    i, j, total = tl.bid(0), tl.bid(1), tl.zeros((1, R, C), tl.float32)
    for split in range(parts.shape[0]):
        total += tl.load(parts, (split, i, j), (1, R, C), padding_mode=ZERO)
    tl.store(out, (i, j), total.reshape((R, C)).astype(out.dtype))


def tiles(x):
    """Returns extents of tiles along m, n and k that suit the device."""
    return (64, 64, 64) if x.is_cpu else (128, 64, 32) if x.dtype == torch.float32 else (128, 128, 64)


def processors(x):
    """Returns how many blocks the device of x runs at once."""
    return torch.get_num_threads() if x.is_cpu else torch.cuda.get_device_properties(x.device).multi_processor_count


@tile_ops.op("programs::matmul_split_k(Tensor a, Tensor b) -> Tensor")
class matmul_split_k:
    """a @ b, with differentiable gradients.

    a: [m, k]; b: [k, n]; both float32, float16 or bfloat16, of any strides. Accumulates in float32. Error: ValueError
    if shapes or dtypes do not fit."""

    autocast = "lower"

    def outputs(a, b):
        if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
            raise ValueError(f"matmul_split_k: a is {list(a.shape)}, b {list(b.shape)}; pass [m, k] and [k, n]")
        if a.dtype not in (torch.float32, torch.float16, torch.bfloat16) or b.dtype != a.dtype:
            raise ValueError(f"matmul_split_k: a is {a.dtype}, b {b.dtype}; pass one of float32, float16 and bfloat16")
        return a.new_empty(a.shape[0], b.shape[1])

    def run(a, b, out):
        tm, tn, tk = tiles(a)
        grid = tl.cdiv(out.shape[0], tm), tl.cdiv(out.shape[1], tn)
        splits = max(1, min(processors(a) // max(grid[0] * grid[1], 1), tl.cdiv(a.shape[1], tk)))
        parts = a.new_empty(splits, *out.shape, dtype=torch.float32)
        matmul_kernel[(splits, *grid)](a, b, parts, tm, tn, tk)
        sum_kernel[tl.cdiv(out.shape[0], 8), tl.cdiv(out.shape[1], 64)](parts, out, 8, 64)

    def grad(grad_out, a, b):
        return matmul_split_k(grad_out, b.mT), matmul_split_k(a.mT, grad_out)

    def flops(a, b):
        return 2 * a.shape[0] * a.shape[1] * b.shape[1]


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(*size, device=device, requires_grad=True) for size in ((50, 9000), (9000, 70)))
    torch.testing.assert_close(matmul_split_k(a, b), a @ b, rtol=1e-3, atol=1e-3)
    matmul_split_k(a, b).square().sum().backward()
    print("the product of", list(a.shape), "and", list(b.shape), "and its gradients are there:", a.grad.norm().item())
