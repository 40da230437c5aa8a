"""Users' kernels in Python of the CPU table: single elements, positions, remainders, reductions with a function."""

import math

import tile_ops.language as tl
import torch

BLOCK = 4096  # elements of a block


@tl.kernel
def gather_kernel(x, index, out, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, i, tl.gather(x, tl.load(index, i, N)))


@tl.kernel
def scatter_kernel(out, index, x, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.scatter(out, tl.load(index, i, N), tl.load(x, i, N))


@tl.kernel
def atomic_add_kernel(out, index, x, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.atomic_add(out, tl.load(index, i, N), tl.load(x, i, N))


@tl.kernel
def largest_kernel(x, values, places, M: tl.Constant[int], N: tl.Constant[int]):
    t = tl.load(x, (tl.bid(0), 0), (M, N))
    tl.store(values, tl.bid(0), tl.max(t, 1))
    tl.store(places, tl.bid(0), tl.argmax(t, 1))


@tl.kernel
def remainder_kernel(x, y, out, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, i, tl.load(x, i, N) % tl.load(y, i, N))


@tl.kernel
def floor_divide_kernel(x, y, out, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, i, tl.load(x, i, N) // tl.load(y, i, N))


def log_of_sum(x, y):
    top = tl.maximum(x, y)
    return top + tl.log(tl.exp(x - top) + tl.exp(y - top))


def larger(x, y):
    return tl.maximum(x, y)


@tl.kernel
def logsumexp_kernel(x, out, M: tl.Constant[int], N: tl.Constant[int]):
    tl.store(out, tl.bid(0), tl.reduce(tl.load(x, (tl.bid(0), 0), (M, N)), 1, log_of_sum, -1e30))


@tl.kernel
def amax_kernel(x, out, M: tl.Constant[int], N: tl.Constant[int]):
    tl.store(out, tl.bid(0), tl.reduce(tl.load(x, (tl.bid(0), 0), (M, N)), 1, larger, -math.inf))


def gather(x, index):
    out = torch.empty_like(x)
    gather_kernel[tl.cdiv(len(index), BLOCK)](x, index, out, BLOCK)
    return out


def scatter(out, index, x):
    scatter_kernel[tl.cdiv(len(index), BLOCK)](out, index, x, BLOCK)


def atomic_add(out, index, x):
    atomic_add_kernel[tl.cdiv(len(index), BLOCK)](out, index, x, BLOCK)


def _elementwise(kernel):
    def call(x, y):
        out = torch.empty_like(x)
        kernel[tl.cdiv(len(x), BLOCK)](x, y, out, BLOCK)
        return out

    return call


remainder, floor_divide = _elementwise(remainder_kernel), _elementwise(floor_divide_kernel)


def largest(x):
    """The largest of each row, and the first place where it is."""
    rows, columns = x.shape
    values, places = torch.empty(rows, dtype=x.dtype), torch.empty(rows, dtype=torch.int32)
    tile = BLOCK // columns
    largest_kernel[tl.cdiv(rows, tile)](x, values, places, tile, columns)
    return values, places


def _of_rows(kernel):
    def call(x):
        rows, columns = x.shape
        out, tile = torch.empty(rows, dtype=x.dtype), 4 * BLOCK // columns
        kernel[tl.cdiv(rows, tile)](x, out, tile, columns)
        return out

    return call


logsumexp, amax = _of_rows(logsumexp_kernel), _of_rows(amax_kernel)
