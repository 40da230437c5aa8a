"""Product of matrices of a long inner extent: blocks share it, and a second kernel adds their parts.

A small result has too few tiles for all processors; here a tile has several blocks. Parts are float32 and are added in a
fixed order, not by atomics, so results do not depend on timing."""

import tile_ops
import tile_ops.language as tl
import torch

ZERO = tl.PaddingMode.ZERO


@tl.kernel
def part_kernel(a, b, parts, TM: tl.Constant[int], TN: tl.Constant[int], TK: tl.Constant[int]):
    i, j, s = tl.bid(0), tl.bid(1), tl.bid(2)
    total = tl.zeros((TM, TN), tl.float32)
    for k in range(s, tl.num_tiles(a, 1, (TM, TK)), tl.num_blocks(2)):
        left = tl.load(a, (i, k), (TM, TK), padding_mode=ZERO)
        total = tl.mma(left, tl.load(b, (k, j), (TK, TN), padding_mode=ZERO), total)
    tl.store(parts, (s, i, j), total.reshape((1, TM, TN)))


@tl.kernel
def sum_kernel(parts, out, TM: tl.Constant[int], TN: tl.Constant[int]):
    i, j = tl.bid(0), tl.bid(1)
    total = tl.zeros((1, TM, TN), tl.float32)
    for s in range(parts.shape[0]):
        total += tl.load(parts, (s, i, j), (1, TM, TN), padding_mode=ZERO)
    tl.store(out, (i, j), total.reshape((TM, TN)).astype(out.dtype))


@tile_ops.op("programs::matmul_split_k(Tensor a, Tensor b, int splits=8) -> Tensor", autocast="lower")
class matmul_split_k:
    """a b. a: [rows, inner], b: [inner, columns], both float32, float16 or bfloat16, of any strides; splits: how many blocks
    share the inner extent. Sums are of float32. Error: ValueError where shapes or dtypes do not fit, or splits is below 1.
    """

    def outputs(a, b, splits):
        if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype or splits < 1:
            raise ValueError(
                f"matmul_split_k: a is {list(a.shape)} of {a.dtype}, b {list(b.shape)} of {b.dtype}, splits {splits}; "
                "pass [rows, inner] and [inner, columns] of one dtype, and at least 1"
            )
        return a.new_empty(a.shape[0], b.shape[1])

    def run(a, b, splits, out):
        tiles = (128, 128, 64) if a.dtype != torch.float32 and a.is_cuda else (64, 64, 32)
        parts = a.new_empty(splits, *out.shape, dtype=torch.float32)
        part_kernel[tl.cdiv(out.shape[0], tiles[0]), tl.cdiv(out.shape[1], tiles[1]), splits](a, b, parts, *tiles)
        sum_kernel[tl.cdiv(out.shape[0], 32), tl.cdiv(out.shape[1], 64)](parts, out, 32, 64)

    def grad(grad_out, a, b, splits):
        return matmul_split_k(grad_out, b.mT, 1), matmul_split_k(a.mT, grad_out, 1)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(*size, device=device, requires_grad=True) for size in ((100, 5000), (5000, 90)))
    torch.testing.assert_close(matmul_split_k(a, b), a @ b, rtol=1e-3, atol=1e-3)
    matmul_split_k(a, b).square().sum().backward()
    print("product of", list(a.shape), "and", list(b.shape), "and its gradients are there:", a.grad.norm().item())
