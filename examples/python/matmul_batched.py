"""Products of batches of matrices with broadcast leading extents, and their gradients.

A block computes a tile of one matrix of the result. Factors are not copied: a matrix that is used in many products is a
view of stride 0, and a block computes the indices of its matrix, one leading axis after another."""

import tile_ops
import tile_ops.language as tl
import torch

ZERO = tl.PaddingMode.ZERO


def leading(z, extents):
    """Returns the indices of the z-th matrix along the leading axes."""
    return leading(z // extents[-1], extents[:-1]) + (z % extents[-1],) if len(extents) else ()


def matrix_tile(array, at, i, j, T):
    """Loads the tile (i, j) of extents T of the matrix at leading indices."""
    return tl.load(array, at + (i, j), (1,) * len(at) + T, padding_mode=ZERO).reshape(T)


@tl.kernel
def matmul_kernel(a, b, out, TM: tl.Constant[int], TN: tl.Constant[int], TK: tl.Constant[int]):
    rows, columns = tl.cdiv(a.shape[-2], TM), tl.cdiv(b.shape[-1], TN)
    z, tile = tl.bid(0) // (rows * columns), tl.bid(0) % (rows * columns)
    i, j, at = tile % rows, tile // rows, leading(z, out.shape[:-2])
    acc = tl.zeros((TM, TN), tl.float32)
    for k in range(tl.cdiv(a.shape[-1], TK)):
        acc = tl.mma(matrix_tile(a, at, i, k, (TM, TK)), matrix_tile(b, at, k, j, (TK, TN)), acc)
    tl.store(out, at + (i, j), acc.astype(out.dtype).reshape((1,) * len(at) + (TM, TN)))


def tiles(x):
    """Returns extents of tiles along m, n and k that suit the device."""
    return (64, 64, 64) if x.is_cpu else (128, 64, 32) if x.dtype == torch.float32 else (128, 128, 64)


@tile_ops.op("programs::matmul_batched(Tensor a, Tensor b) -> Tensor")
class matmul_batched:
    """a @ b of matrices in the last two axes, with differentiable gradients.

    a: [..., m, k]; b: [..., k, n], with up to 6 leading extents that are equal, 1 or missing; both float32, float16 or
    bfloat16, of any strides. Accumulates in float32. Error: ValueError if shapes or dtypes do not fit."""

    autocast = "lower"

    def outputs(a, b):
        inner = a.dim() > 1 and b.dim() > 1 and a.shape[-1] == b.shape[-2]
        pairs = zip(a.shape[-3::-1], b.shape[-3::-1])
        if not inner or any(x != y and x != 1 and y != 1 for x, y in pairs):
            raise ValueError(f"matmul_batched: a is {list(a.shape)}, b {list(b.shape)}; pass [..., m, k] and "
                             "[..., k, n], leading extents equal, 1 or missing")  # fmt: skip
        if a.dtype not in (torch.float32, torch.float16, torch.bfloat16) or b.dtype != a.dtype:
            raise ValueError(f"matmul_batched: a is {a.dtype}, b {b.dtype}; pass one of float32, float16 and bfloat16")
        return a.new_empty(*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])

    def run(a, b, out):
        tm, tn, tk = tiles(a)
        blocks = out.shape[:-2].numel() * tl.cdiv(out.shape[-2], tm) * tl.cdiv(out.shape[-1], tn)
        a, b = (each.expand(*out.shape[:-2], *each.shape[-2:]) for each in (a, b))
        matmul_kernel[blocks](a, b, out, tm, tn, tk)

    def grad(grad_out, a, b):
        grad_a, grad_b = matmul_batched(grad_out, b.mT), matmul_batched(a.mT, grad_out)
        return grad_a.sum_to_size(a.shape), grad_b.sum_to_size(b.shape)

    def flops(a, b):
        return 2 * torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]).numel() * a.shape[-2:].numel() * b.shape[-1]


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(*size, 200, 200, device=device, requires_grad=True) for size in ((4, 3), (3,)))
    torch.testing.assert_close(matmul_batched(a, b), a @ b, rtol=1e-4, atol=1e-4)
    matmul_batched(a, b).square().sum().backward()
    print("products of", list(a.shape), "and", list(b.shape), "and their gradients are there:", a.grad.norm().item())
