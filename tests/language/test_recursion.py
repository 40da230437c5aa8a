"""Tests recursion that is ended by a constant, to a depth of 1,000 whatever Python's own limit."""

import sys
import threading

import pytest
import tile_ops.language as tl
import torch
from python_meaning import as_python, kernel_of, same


def power(x, n):
    return x if n == 0 else (x * 3) % 1000 + power(x, n - 1)


def summed(x, n):
    if n == 0:
        return x
    y = x * 3 % 1001
    return n + summed(y, n - 1)


def looping(x, n):
    """Recurses inside a loop; if each call were translated twice, a depth of 40 would take 2**40 steps."""
    if n == 0:
        return x
    while True:
        x = x + 1
        if x % 3 == 0:
            return looping(x, n - 1) + 1
        if x > 100:
            return x


def of_depth(function, depth):
    def run(x):
        return function(x, depth)

    return run


@pytest.mark.parametrize("function", [power, summed])
def test_a_hundred(function):
    same(of_depth(function, 100), 3)


@pytest.mark.parametrize("function", [power, summed])
def test_a_thousand(function):
    run, out = of_depth(function, 996), torch.zeros(1, 8, dtype=torch.int64)
    kernel_of(run)[1](out, (3,))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 2000)
    try:
        want = as_python(run, (3,))
    finally:
        sys.setrecursionlimit(limit)
    assert out[0, 0].item() == want[0]
    assert sys.getrecursionlimit() == limit and threading.active_count() < 50


def test_loops_in_a_recursion():
    same(of_depth(looping, 40), 3, 50, debug=False)


def test_without_an_end():
    def deeper(n):
        return deeper(n + 1)

    @tl.kernel
    def kernel(out):
        tl.store(out, 0, deeper(0))

    with pytest.raises(tl.TileRecursionError) as error:
        kernel[1](torch.zeros(1))
    assert error.value.message == "Calls are nested more than 1000 deep; a recursion needs an end that constants decide"
    assert len(error.value.frames) == 1001 and "[999 more calls at this line]" in str(error.value)
