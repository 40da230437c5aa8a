"""Tiles that several passes over a block need: computed again from memory, or kept where memory has changed."""

import pytest
import tile_ops.language as tl
import torch


@tl.kernel
def of_read_memory(x, w, means, out):
    t = tl.load(x, (tl.bid(0), 0), (8, 128))
    u = t * tl.load(w, (0, 0), (1, 128))
    d = t - tl.load(means, (tl.bid(0), 0), (8, 1))
    along = tl.sum(u * d, 1, keepdims=True)
    tl.store(out, (tl.bid(0), 0), u - d * along + tl.sum(u, 1, keepdims=True) * tl.sum(d, 0, keepdims=True))


@tl.kernel
def of_memory_that_changes(x, out):
    u = tl.load(x, (tl.bid(0), 0), (8, 128)) * 2 + 1
    total = tl.sum(u, 1, keepdims=True)
    tl.store(x, (tl.bid(0), 0), u + total)
    tl.store(out, (tl.bid(0), 0), u * tl.sum(u * total, 0, keepdims=True))


@tl.kernel
def of_one_column(x, w, out):
    u = tl.load(x, (tl.bid(0), 0), (1024, 1)) * tl.load(w, (tl.bid(0), 0), (1024, 1))
    tl.store(out, (tl.bid(0), 0), u - tl.sum(u, 1, keepdims=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_memory_that_is_read(dtype):
    x, w, means = (torch.randn(size).to(dtype) for size in ((24, 128), (1, 128), (24, 1)))
    out = torch.full_like(x, float("nan"))
    of_read_memory[(3,)](x, w, means, out)
    t, w, means = x.double(), w.double(), means.double()
    u, d = t * w, t - means
    sums = torch.cat([part.sum(0, keepdim=True).expand(8, -1) for part in d.split(8)])
    right = u - d * (u * d).sum(1, keepdim=True) + u.sum(1, keepdim=True) * sums
    error = (out.double() - right).abs().max()
    assert error <= 64 * torch.finfo(dtype).eps * right.abs().max()


def test_memory_that_changes_is_read_once():
    x, out = torch.randn(16, 128), torch.full((16, 128), float("nan"))
    u = x.double() * 2 + 1
    of_memory_that_changes[(2,)](x, out)
    total = u.sum(1, keepdim=True)
    torch.testing.assert_close(x.double(), u + total, rtol=0, atol=1e-4)
    sums = torch.cat([part.sum(0, keepdim=True).expand(8, -1) for part in (u * total).split(8)])
    torch.testing.assert_close(out.double(), u * sums, rtol=1e-4, atol=0.1)


def test_a_product_has_the_same_bits_each_time(device):
    x, w, out = torch.randn(1024, 1), torch.randn(1024, 1), torch.full((1024, 1), float("nan"))
    of_one_column[(1,)](x, w, out)
    # A GPU contracts the product and the difference, which leaves the product's rounding.
    rounding = 0 if device.type == "cpu" else torch.finfo(torch.float32).eps / 2
    assert bool((out.abs() <= rounding * (x * w).abs()).all())
