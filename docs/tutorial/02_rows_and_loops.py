"""Softmax of rows: reductions, padding, loops and a look inside a kernel while it runs."""

# %%
# A block takes a row here. A tile's extents are powers of two, rows are not: `padding_mode` says what a tile holds
# outside of the array. For a softmax that is -infinity, whose exponential is 0. Reductions take a tile to a smaller one.

import math

import tile_ops.language as tl
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


@tl.kernel
def softmax(x, out, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N), padding_mode=tl.PaddingMode.NEG_INF).astype(tl.float32)
    e = tl.exp(t - tl.max(t, 1, keepdims=True))
    tl.store(out, (row, 0), (e / tl.sum(e, 1, keepdims=True)).astype(out.dtype))


for dtype in (torch.float32, torch.float16):
    x = torch.randn(20, 1000, device=device).to(dtype)
    out = torch.empty_like(x)
    softmax[20](x, out, 1024)
    torch.testing.assert_close(out, torch.softmax(x, 1))

# %%
# `.astype(tl.float32)` is there for float16: sums of halves would lose digits. Types are never changed silently: a
# float32 tile stored into float16 memory needs its `.astype(out.dtype)`.
#
# Rows of a million elements do not fit a tile. A loop takes them in chunks; what it carries must keep its dtype and
# shape. `tl.num_tiles` counts chunks at run time, so that one kernel serves all lengths.


@tl.kernel
def softmax_of_long_rows(x, out, N: tl.Constant[int]):
    row, chunks = tl.bid(0), tl.num_tiles(x, 1, (1, N))
    tops, sums = tl.full((1, N), -math.inf, tl.float32), tl.zeros((1, N), tl.float32)
    for i in range(chunks):
        t = tl.load(x, (row, i), (1, N), padding_mode=tl.PaddingMode.NEG_INF).astype(tl.float32)
        new = tl.maximum(tops, t)
        sums = sums * tl.exp(tops - new) + tl.exp(t - new)  # what was added so far is measured from the new maximum
        tops = new
    top = tl.max(tops)
    total = tl.sum(sums * tl.exp(tops - top))
    for i in range(chunks):
        t = tl.load(x, (row, i), (1, N)).astype(tl.float32)
        tl.store(out, (row, i), (tl.exp(t - top) / total).astype(out.dtype))


x = torch.randn(3, 100_000, device=device)
out = torch.empty_like(x)
softmax_of_long_rows[3](x, out, 1024)
torch.testing.assert_close(out, torch.softmax(x, 1))

# %%
# Functions that a kernel calls are ordinary Python functions; they are compiled into it.


def mean_and_deviation(t, count):
    mean = tl.sum(t) / count
    return mean, tl.sqrt(tl.sum((t - mean) * (t - mean)) / count)


@tl.kernel
def standardise(x, out, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N))
    mean, deviation = mean_and_deviation(t, N)
    tl.store(out, (row, 0), (t - mean) / deviation)


x = torch.randn(5, 256, device=device)
out = torch.empty_like(x)
standardise[5](x, out, 256)
torch.testing.assert_close(out, (x - x.mean(1, True)) / x.std(1, correction=0, keepdim=True))

# %%
# If a number is wrong, look inside. `kernel.debug` runs the Python function itself, block after block, with
# torch tensors for tiles: `print`, `breakpoint()` and a debugger's steps work. TILE_DEBUG=python does so for all
# launches of a program. `print` in a compiled kernel works as well, on both devices.

seen = []


@tl.kernel
def watched(x, out, N: tl.Constant[int]):
    t = tl.load(x, tl.bid(0), N)
    tl.store(out, tl.bid(0), tl.sqrt(t))
    print("block", tl.bid(0), "has least", tl.min(t))


x = torch.tensor([4.0, 9.0, 16.0, 25.0], device=device)
out = torch.empty_like(x)
watched.debug(2, x, out, 2)
assert out.tolist() == [2, 3, 4, 5]

# %%
# You can read what was compiled: the intermediate representation, with the line of each operation.

print(softmax.ir(torch.randn(20, 1000, device=device), torch.empty(20, 1000, device=device), 1024))
