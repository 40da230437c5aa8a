"""Transpose of matrices.

A tile is read along the rows of x and written along those of the result, so that both accesses are contiguous. Tiles at
the edges reach beyond the array: loads pad there, and stores drop."""

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def transpose_kernel(x, out, T: tl.Constant[int]):
    row, j = tl.divmod(tl.bid(0), tl.num_tiles(x, 2, (1, T, T)))
    batch, i = tl.divmod(row, tl.num_tiles(x, 1, (1, T, T)))
    tl.store(out, (batch, j, i), tl.load(x, (batch, i, j), (1, T, T)).transpose(1, 2))


@tile_ops.op("programs::transpose(Tensor x) -> Tensor")
class transpose:
    """x with its last two extents exchanged, contiguous: [..., rows, columns] to [..., columns, rows].

    x: any dtype but complex ones. Error: ValueError if x has fewer than two extents."""

    def outputs(x):
        if x.dim() < 2 or x.is_complex():
            raise ValueError(f"transpose: x is {x.dtype} {list(x.shape)}; pass [..., rows, columns], not complex")
        return x.new_empty(*x.shape[:-2], x.shape[-1], x.shape[-2])

    def run(x, out):
        if x.numel():
            flat, size = x.reshape(-1, *x.shape[-2:]), 128 if x.is_cpu else 64
            blocks = len(flat) * tl.cdiv(x.shape[-2], size) * tl.cdiv(x.shape[-1], size)
            transpose_kernel[blocks](flat, out.view(-1, *out.shape[-2:]), size)

    def grad(grad_out):
        return (transpose(grad_out),)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(3, 2049, 1537, device=device)
    assert torch.equal(transpose(x), x.mT)
    print(list(x.shape), "became", list(transpose(x).shape))
