"""Softmax of rows in three ways, with its gradient.

A row that fits in a tile is read once. A longer one is read in chunks: `chunked` reads it for its maximum, for its sum,
and to write; `online` reads it once less, because it rescales its sum when the maximum grows. Formula: Milakov and
Gimelshein, "Online normalizer calculation for softmax", 2018."""

import math

import tile_ops
import tile_ops.language as tl
import torch

LOWEST = tl.PaddingMode.NEG_INF


@tl.kernel
def whole_kernel(x, out, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N), padding_mode=LOWEST).astype(tl.float32)
    e = tl.exp(t - tl.max(t))
    tl.store(out, (row, 0), (e / tl.sum(e)).astype(out.dtype))


@tl.kernel
def chunked_kernel(x, out, N: tl.Constant[int]):
    row, chunks = tl.bid(0), tl.num_tiles(x, 1, (1, N))
    tops, sums = tl.full((1, N), -math.inf, tl.float32), tl.zeros((1, N), tl.float32)
    for i in range(chunks):
        tops = tl.maximum(tops, tl.load(x, (row, i), (1, N), padding_mode=LOWEST).astype(tl.float32))
    top = tl.max(tops)
    for i in range(chunks):
        sums += tl.exp(tl.load(x, (row, i), (1, N), padding_mode=LOWEST).astype(tl.float32) - top)
    total = tl.sum(sums)
    for i in range(chunks):
        e = tl.exp(tl.load(x, (row, i), (1, N)).astype(tl.float32) - top)
        tl.store(out, (row, i), (e / total).astype(out.dtype))


@tl.kernel
def online_kernel(x, out, N: tl.Constant[int]):
    row, chunks = tl.bid(0), tl.num_tiles(x, 1, (1, N))
    tops, sums = tl.full((1, N), -math.inf, tl.float32), tl.zeros((1, N), tl.float32)
    for i in range(chunks):
        t = tl.load(x, (row, i), (1, N), padding_mode=LOWEST).astype(tl.float32)
        new = tl.maximum(tops, t)
        safe = tl.where(new == -math.inf, 0.0, new)  # only -inf so far: exp returns zeros, not NaN
        sums = sums * tl.exp(tops - safe) + tl.exp(t - safe)
        tops = new
    top = tl.max(tops)
    total = tl.sum(sums * tl.exp(tops - top))
    for i in range(chunks):
        e = tl.exp(tl.load(x, (row, i), (1, N)).astype(tl.float32) - top)
        tl.store(out, (row, i), (e / total).astype(out.dtype))


@tl.kernel
def backward_kernel(grad, y, grad_x, N: tl.Constant[int]):
    row, chunks = tl.bid(0), tl.num_tiles(y, 1, (1, N))
    sums = tl.zeros((1, N), tl.float32)
    for i in range(chunks):
        t = tl.load(y, (row, i), (1, N), padding_mode=tl.PaddingMode.ZERO).astype(tl.float32)
        sums += t * tl.load(grad, (row, i), (1, N), padding_mode=tl.PaddingMode.ZERO).astype(tl.float32)
    along = tl.sum(sums)
    for i in range(chunks):
        t = tl.load(y, (row, i), (1, N)).astype(tl.float32)
        slope = t * (tl.load(grad, (row, i), (1, N)).astype(tl.float32) - along)
        tl.store(grad_x, (row, i), slope.astype(grad_x.dtype))


KERNELS = {"whole": whole_kernel, "chunked": chunked_kernel, "online": online_kernel}
LARGEST = {"whole": 16384, "chunked": 4096, "online": 4096}  # elements of a tile


def matrix(x):
    return x.reshape(x.shape[:-1].numel(), x.shape[-1])


def width(x, how):
    return min(LARGEST[how], 1 << max(x.shape[-1] - 1, 0).bit_length())


@tile_ops.op("programs::softmax(Tensor x, str? how=None) -> Tensor")
class softmax:
    """exp(x) / sum(exp(x)) of each row.

    x: [..., columns] of float32, float16 or bfloat16; how: "whole" (up to 16384 columns), "chunked", "online", or None
    to choose by the length. Accumulates in float32. Error: ValueError for another `how`, or for "whole" if a row is
    longer."""

    def outputs(x, how):
        if how not in (None, *KERNELS) or (how == "whole" and x.shape[-1] > LARGEST[how]):
            raise ValueError(
                f"softmax: how is {how!r} for rows of {x.shape[-1]}; pass None, 'chunked', 'online', or, "
                "up to 16384 columns, 'whole'"
            )
        return x.new_empty(x.shape)

    def run(x, how, out):
        how = how or ("whole" if x.shape[-1] <= LARGEST["whole"] else "online")
        rows = matrix(x)
        KERNELS[how][len(rows)](rows, matrix(out), width(x, how))

    class grad:
        def outputs(x):
            return x.new_empty(x.shape)

        def run(grad_out, out, grad_x):
            rows = matrix(out)
            backward_kernel[len(rows)](matrix(grad_out), rows, matrix(grad_x), width(out, "chunked"))


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(4, 50, 10000, device=device, requires_grad=True)
    for how in KERNELS:
        torch.testing.assert_close(softmax(x, how), torch.softmax(x, -1))
    softmax(x).square().sum().backward()
    print("softmax of", list(x.shape), "and its gradient are there:", x.grad.norm().item())
