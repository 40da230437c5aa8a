"""break, continue and return inside of `with`: the statements after the generator's yield run at each way out."""

import contextlib

import pytest
import tile_ops.language as tl
import torch
from python_examples import on_the_emulator


@contextlib.contextmanager
def counted(out, index):
    tl.store(out, index, tl.load(out, index, 1) + 1)
    yield index * 2
    tl.store(out, index, tl.load(out, index, 1) + 10)


@contextlib.contextmanager
def nested(out):
    with counted(out, 6):
        tl.store(out, 5, tl.load(out, 5, 1) + 1)
    yield 3
    total = tl.load(out, 5, 1)
    if tl.load(out, 6, ()) > 12:
        total = total + 5
    tl.store(out, 5, total + 20)


@tl.kernel
def left_loop(x, out, n: int):
    for i in range(4):
        with counted(out, 0) as a, counted(out, 1):
            if i == n:
                break
            with counted(out, 2):
                if i == n - 1:
                    continue
            tl.store(out, 3, tl.load(out, 3, 1) + i + a)
        tl.store(out, 4, i * 1.0)


@tl.kernel
def left_kernel(x, out, n: int):
    with counted(out, 0):
        with nested(out) as three:
            if n > 1:
                tl.store(out, 1, 5.0)
                return
            tl.store(out, 2, three * 1.0)
        if n > 0:
            return
        tl.store(out, 3, 1.0)
    tl.store(out, 4, 1.0)


@tl.kernel
def left_loop_and_kernel(x, out, n: int):
    i = 0
    with counted(out, 0):
        while i < 3:
            with counted(out, 1):
                i += 1
                with counted(out, 2):
                    if i == n:
                        return
                    if i == 2:
                        continue
                tl.store(out, 3, i * 1.0)
        tl.store(out, 4, 1.0)
    tl.store(out, 7, 1.0)


def found(out, x, n):
    with counted(out, 0) as two:
        i = 0
        while True:
            with nested(out):
                if tl.load(x, i, ()) >= n:
                    return tl.load(x, i, 1) + two
                if i > 2:
                    break
            i += 1
        tl.store(out, 1, 2.0)
    return tl.load(x, 0, 1) - 1


@tl.kernel
def function_left(x, out, n: int):
    tl.store(out, 7, found(out, x, n * 2))


@tl.kernel
def known(x, out, n: int):
    with counted(out, 0):
        for i in range(3):
            with counted(out, 1):
                if tl.static_eval(True):
                    if n == 0:
                        break
                    continue
                tl.store(out, 2, 1.0)
        if tl.static_eval(True):
            if n == 2:
                return
        tl.store(out, 3, 1.0)
    tl.store(out, 4, 1.0)
    if tl.static_eval(True):
        return
    tl.store(out, 5, 1.0)


def helper(n):
    if tl.static_eval(True):
        if n > 1:
            return 1.0
    return 2.0


@tl.kernel
def constant_if_around_a_return(x, out, n: int):
    tl.store(out, 1, helper(n))
    if tl.static_eval(True):
        if n > 0:
            return
    tl.store(out, 0, 1.0)


CASES = {
    each.__name__: each
    for each in (left_loop, left_kernel, left_loop_and_kernel, function_left, known, constant_if_around_a_return)
}


def results(kernel, n, run):
    x, out = torch.arange(8.0), torch.zeros(8)
    run(kernel)(x, out, n)
    return out


@pytest.mark.parametrize("n", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("name", CASES)
def test_as_python_has_it(name, n):
    want = results(CASES[name], n, lambda kernel: lambda *given: kernel.debug(1, *given))
    torch.testing.assert_close(results(CASES[name], n, lambda kernel: kernel[1]), want)


@pytest.mark.at_home
@pytest.mark.parametrize("name", CASES)
def test_on_the_emulator(name):
    want = results(CASES[name], 2, lambda kernel: lambda *given: kernel.debug(1, *given))
    with on_the_emulator(archs=(90,)):
        torch.testing.assert_close(results(CASES[name], 2, lambda kernel: kernel[1]), want)
