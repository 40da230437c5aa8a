"""Transposed matrices in memory of their own, with the gradient, which is the same kernel.

A block loads a tile, turns it and stores it: both are read and written along their rows."""

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def transpose_kernel(x, out, TM: tl.Constant[int], TN: tl.Constant[int]):
    i, j, n = tl.bid(0), tl.bid(1), tl.bid(2)
    tile = tl.load(x, (n, i, j), (1, TM, TN))
    tl.store(out, (n, j, i), tl.permute(tile, (0, 2, 1)))


@tile_ops.op("programs::transpose(Tensor x) -> Tensor")
class transpose:
    """x with its last two axes exchanged, contiguous. x: [..., rows, columns] of any dtype that kernels have.
    Error: ValueError where x has fewer than two axes."""

    def outputs(x):
        if x.dim() < 2:
            raise ValueError(f"transpose: x is {list(x.shape)}; pass [..., rows, columns]")
        return x.new_empty(*x.shape[:-2], x.shape[-1], x.shape[-2])

    def run(x, out):
        rows, columns = x.shape[-2:]
        x, out = x.reshape(x.shape[:-2].numel(), rows, columns), out.view(x.shape[:-2].numel(), columns, rows)
        transpose_kernel[tl.cdiv(rows, 64), tl.cdiv(columns, 64), len(x)](x, out, 64, 64)

    def grad(grad_out):
        return transpose(grad_out)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(3, 1000, 300, device=device, requires_grad=True)
    assert torch.equal(transpose(x), x.mT) and transpose(x).is_contiguous()
    transpose(x).square().sum().backward()
    torch.testing.assert_close(x.grad, 2 * x)
    print("transposes of", list(x.shape), "and their gradient are there")
