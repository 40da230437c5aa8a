"""Tests optional arrays and decorated helpers in launches and on the emulator of a GPU."""

import functools

import pytest
import tile_ops.language as tl
import torch
from python_examples import on_the_emulator


def residual(function):
    """Adds the argument to the function's result, as models do."""

    @functools.wraps(function)
    def wrapper(t, *arguments, **named):
        return function(t, *arguments, **named) + t

    return wrapper


@residual
@residual
def gated(t, by):
    return tl.sigmoid(t) * by


@tl.kernel
def kernel(x, out, bias=None, weight=None, N: tl.Constant[int] = 32):
    i, activation = tl.bid(0), functools.partial(gated, by=3.0)
    t = tl.load(x, i, N)
    if weight is not None:
        t = t * tl.load(weight, i, N)
    if bias is not None:
        t = t + tl.load(bias, i, N)
    tl.store(out, i, activation(t))


def check(bias, weight):
    x, b, w = torch.randn(3, 64)
    t = x * (w if weight else 1) + (b if bias else 0)
    want = torch.sigmoid(t) * 3 + 2 * t
    out = torch.empty(64)
    kernel[2](x, out, b if bias else None, w if weight else None, 32)
    torch.testing.assert_close(out, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("weight", [False, True])
def test_launches(bias, weight):
    check(bias, weight)


@pytest.mark.at_home
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("weight", [False, True])
def test_on_the_emulator(bias, weight):
    with on_the_emulator(archs=()) as ran:
        check(bias, weight)
    assert ran == ["kernel"]
