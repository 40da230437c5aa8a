"""Tests that range(start, stop, step) in kernels means what it does in Python, even near the limits of int32 and int64."""

import re

import pytest
import tile_ops
import tile_ops.language as tl
import torch
from assertions import said
from python_meaning import same, same_on_the_emulator

MOST, LEAST = 2**31 - 1, -(2**31)


def counted(start, stop, step):
    total = 0
    for i in range(start, stop, step):
        total = total * 31 + i
    return total


def jumps(start, stop, step):
    total, iterations = 0, 0
    for i in range(start, stop, step):
        if i == 3:
            continue
        total = total * 31 + i
        iterations += 1
        if iterations > 6:
            break
    return total, iterations


def falls(n, low, _):
    total = 0
    for i in range(9, -1, -3):
        total = total * 10 + i
    for i in range(n, low, -2):
        total = total * 3 + i
    for i in range(n, -n, -2):
        if i == 1:
            continue
        total = total * 3 + i
        if total > 10_000:
            break
    for i in range(low, low - 1, -(2**31)):
        total += i
    return total


def nested(n, stop, step):
    total = 0
    for i in range(n, stop, step):
        for j in range(i, n + step, step):
            total = total * 3 + j
        for j in range(stop, i, -1):
            total = total + j * i
    return total


CASES = [
    (9, -1, -3), (0, 10, 3), (0, 10, -1), (5, 5, 1), (5, 5, -1), (-3, 4, 1), (4, -3, -1), (0, 1, 100), (1, 0, -100),
    (MOST - 4, MOST, 3), (LEAST + 4, LEAST, -3), (MOST, LEAST, LEAST), (LEAST, MOST, MOST), (MOST, LEAST, -MOST),
    (0, MOST, 2**30), (0, LEAST, -(2**30)),
]  # fmt: skip


@pytest.mark.parametrize("function", [counted, jumps])
def test_a_step_of_the_running_kernel(function):
    same(function, *CASES)


def test_constant_steps_that_fall():
    same(falls, (5, 0, 0), (0, 0, 0), (-3, -9, 0), (2, 100, 0))


def test_nested():
    same(nested, (0, 5, 2), (5, 0, -2), (0, 0, 1))


@pytest.mark.at_home
def test_on_the_emulator():
    same_on_the_emulator([counted, jumps], *CASES)
    same_on_the_emulator([falls], (5, 0, 0), (2, 100, 0))


@tl.kernel
def wide(out, a: tl.ScalarInt64, b: tl.ScalarInt64, c: tl.ScalarInt64):
    k = 0
    for i in range(a, b, c):
        tl.store(out, k, i)
        k += 1
    for i in range(a, b, c):
        if k > 6:
            break
        tl.store(out, k, i - 1)
        k += 1


@tl.kernel
def wide_constants(out, a: tl.ScalarInt64):
    for i in range(a, a + 6, 4):
        tl.store(out, (i - a) // 4, i)
    for i in range(2**40, 2**40 - 8, -4):
        tl.store(out, 2 + (2**40 - i) // 4, i)
    for i in range(2**63 - 6, 2**63 - 1, 4):
        tl.store(out, 4 + (i - (2**63 - 6)) // 4, i)


@pytest.mark.parametrize(
    "bounds",
    [(2**33, 2**33 + 7, 2), (2**33, -(2**33), -(2**32)), (2**62, -(2**63), -(2**62)), (2**63 - 5, 2**63 - 1, 3),
     (-(2**63) + 5, -(2**63), -3), (2**63 - 1, -(2**63), -(2**63)), (3, 0, -1), (0, 0, 5)],
)  # fmt: skip
def test_int64(bounds):
    items = list(range(*bounds))
    want = (items + [each - 1 for each in items])[:7]
    for run in (wide[1], lambda *given: wide.debug(1, *given)):
        out = torch.full((8,), -77)
        run(out, *bounds)
        assert out.tolist() == want + [-77] * (8 - len(want))


def test_int64_with_constants():
    for run in (wide_constants[1], lambda *given: wide_constants.debug(1, *given)):
        out = torch.full((6,), -77)
        run(out, 2**50)
        assert out.tolist() == [2**50, 2**50 + 4, 2**40, 2**40 - 4, 2**63 - 6, 2**63 - 2]


@tl.kernel
def by(out, step: int):
    for i in range(0, 10, step):
        tl.store(out, 0, i)


def test_a_step_of_zero_is_an_error():
    line = by._pyfunc.__code__.co_firstlineno + 2
    for run in (by[1], lambda *given: by.debug(1, *given)):
        out = torch.full((1,), -77)
        with pytest.raises(RuntimeError) as error:
            run(out, 0)
            if out.device.type == "cuda":
                tile_ops.synchronize()
        text = "assertion failed: range: the step must not be 0; block (0, 0, 0) of kernel by"
        assert re.sub(rf"^test_steps.py:{line}(:\d+)?: ", "", said(error)) == text
        assert out.tolist() == [-77]


def test_a_constant_step_of_zero():
    @tl.kernel
    def kernel(out):
        for i in range(0, 10, 0):
            tl.store(out, 0, i)

    for run in (kernel[1], lambda *given: kernel.debug(1, *given)):
        with pytest.raises(tl.TileValueError) as error:
            run(torch.zeros(1))
        assert error.value.message == "range: the step must not be 0; give one below or above it"


def test_known_steps_make_a_plain_loop():
    """Tests that steps known to be positive, as in loops over a grid, add no assertion and no other index."""

    @tl.kernel
    def kernel(out, n: int):
        for i in range(tl.bid(0), n, tl.num_blocks(0) * 4):
            tl.store(out, i, 1)
        for i in range(0, n, max(n, 1)):
            tl.store(out, i, 1)
        for i in range(n):
            tl.store(out, i, 1)

    text = kernel.ir(torch.zeros(4), 4)
    assert text.count("= for ") + text.count(" for ") >= 3 and "assert" not in text and "bitwise_xor" not in text
