"""Gradients of elements that no block reads are zero."""

import pytest
import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def masked_kernel(x, kept, out, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, i, tl.gather(x, i * N + tl.arange(N, dtype=tl.int32), mask=tl.load(kept, i, N)) * 2.0)


@tl.kernel
def shifted_kernel(x, out, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, i, tl.gather(x, i * N + tl.arange(N, dtype=tl.int32) + 3) * 2.0)


@tl.kernel
def some_columns_kernel(x, out, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, (i, 0), tl.gather(x, (i, tl.arange(N, dtype=tl.int32)))[None, :] * 2.0)


@tl.kernel
def one_column_kernel(x, out):
    i = tl.bid(0)
    tl.store(out, i, tl.gather(x, (i, 1)) * 2.0)


def read_by(kernel, x):
    """Returns (further arguments of a kernel, whether it reads each element of x)."""
    read = torch.zeros(x.shape, dtype=torch.bool)
    if kernel is masked_kernel:
        read[::3] = True
        return (read.clone(), torch.empty(24), 8), read
    if kernel is shifted_kernel:
        read[3:] = True
        return (torch.empty(24), 8), read
    if kernel is some_columns_kernel:
        read[:, :8] = True
        return (torch.empty(3, 8), 8), read
    read[:, 1] = True
    return (torch.empty(3),), read


@pytest.mark.parametrize(
    "kernel, shape", [(masked_kernel, 24), (shifted_kernel, 24), (some_columns_kernel, (3, 20)), (one_column_kernel, (3, 4))]
)
def test_what_no_gather_reads_has_no_gradient(kernel, shape):
    x = torch.rand(shape)
    more, read = read_by(kernel, x)
    out = next(each for each in more if isinstance(each, torch.Tensor) and each.dtype == x.dtype)
    gradient = torch.full_like(x, torch.nan)
    tile_ops.derive(kernel)[3](x, *more, torch.ones_like(out), gradient)
    torch.testing.assert_close(gradient, 2.0 * read)
