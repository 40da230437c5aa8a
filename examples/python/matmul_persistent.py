"""Product of matrices by as many blocks as the device has processors, each of which takes tile after tile.

The next tile's loads may begin while the last one is stored, and no processor waits for a last wave of blocks. Tiles are
taken in groups of rows, so that blocks at work at the same time read the same parts of a and b."""

import tile_ops
import tile_ops.language as tl
import torch

ZERO = tl.PaddingMode.ZERO
GROUP = 8  # rows of tiles


def place(tile, rows, columns):
    """The row and column of a tile in the order of groups."""
    group = tile // (GROUP * columns)
    height = min(rows - group * GROUP, GROUP)
    within = tile % (GROUP * columns)
    return group * GROUP + within % height, within // height


@tl.kernel
def matmul_kernel(a, b, out, TM: tl.Constant[int], TN: tl.Constant[int], TK: tl.Constant[int]):
    rows, columns = tl.num_tiles(out, 0, (TM, TN)), tl.num_tiles(out, 1, (TM, TN))
    for tile in range(tl.bid(0), rows * columns, tl.num_blocks(0)):
        i, j = place(tile, rows, columns)
        total = tl.zeros((TM, TN), tl.float32)
        for k in range(tl.num_tiles(a, 1, (TM, TK))):
            left = tl.load(a, (i, k), (TM, TK), padding_mode=ZERO)
            total = tl.mma(left, tl.load(b, (k, j), (TK, TN), padding_mode=ZERO), total)
        tl.store(out, (i, j), total.astype(out.dtype))


def processors(x):
    return torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else torch.get_num_threads()


@tile_ops.op("programs::matmul_persistent(Tensor a, Tensor b) -> Tensor", autocast="lower")
class matmul_persistent:
    """a b. a: [rows, inner], b: [inner, columns], both float32, float16 or bfloat16, of any strides; sums are of float32.
    Error: ValueError where shapes or dtypes do not fit."""

    def outputs(a, b):
        if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
            raise ValueError(
                f"matmul_persistent: a is {list(a.shape)} of {a.dtype}, b {list(b.shape)} of {b.dtype}; "
                "pass [rows, inner] and [inner, columns] of one dtype"
            )
        return a.new_empty(a.shape[0], b.shape[1])

    def run(a, b, out):
        tiles = (128, 128, 64) if a.dtype != torch.float32 and a.is_cuda else (64, 64, 32)
        count = tl.cdiv(out.shape[0], tiles[0]) * tl.cdiv(out.shape[1], tiles[1])
        matmul_kernel[min(count, processors(a))](a, b, out, *tiles)

    def grad(grad_out, a, b):
        return matmul_persistent(grad_out, b.mT), matmul_persistent(a.mT, grad_out)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(*size, device=device, requires_grad=True) for size in ((1100, 200), (200, 500)))
    torch.testing.assert_close(matmul_persistent(a, b), a @ b, rtol=1e-4, atol=1e-4)
    matmul_persistent(a, b).square().sum().backward()
    print("product of", list(a.shape), "and", list(b.shape), "and its gradients are there:", a.grad.norm().item())
