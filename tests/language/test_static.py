"""Tests static_iter over everything that Python iterates over, and static_assert of conditions that Python decides."""

import dataclasses
import re

import pytest
import tile_ops.language as tl
import torch
from python_meaning import same, same_on_the_emulator


@dataclasses.dataclass(frozen=True)
class Pair:
    first: object
    second: object

    def sum(self):
        return self.first + self.second


def scaled(x):
    return x * 3


def over_tuples_and_lists(n):
    total, m = 0, n + 5
    for each in tl.static_iter((n, m, 2)):
        total = total * 3 + each
    for each in tl.static_iter([n, m]):
        total = total * 3 + each
    for a, (b, c) in tl.static_iter([(n, (m, 1)), [2, [n, m]]]):
        total = total + a * b - c
    for each in tl.static_iter((n, m) + (m,) * 2):
        total = total + each
    return total


def over_enumerate_and_zip(n):
    total, items = 0, (n, n + 2, n * 3)
    for i, each in tl.static_iter(enumerate(items)):
        total = total * 2 + i * each
    for i, each in tl.static_iter(enumerate(items, 5)):
        total = total * 2 + i * each
    for a, b in tl.static_iter(zip(items, reversed(items))):
        total = total + a * b
    for i, (a, b) in tl.static_iter(enumerate(zip(items, (1, 2, 3)))):
        total = total + a * b - i
    for each in tl.static_iter(sorted((3, 1, 2))):
        total = total * 2 + each
    return total


def over_functions(n):
    total = 1
    for f in tl.static_iter((lambda x: x + n, lambda x: x * n, scaled)):
        total = f(total)
    for k, f in tl.static_iter(zip((2, 3), [lambda x: x - total, lambda x: x + total])):
        total = f(total * k)
    local = lambda x: x * 2 + n  # noqa: E731
    for i, f in tl.static_iter(enumerate((local, local, lambda x: x))):
        total = f(total) + i
    for f in tl.static_iter((lambda x: x,) + (lambda x: x + 1,)):
        total = f(total)
    return total


def over_records(n):
    total = 0
    for pair in tl.static_iter((Pair(n, 2), Pair(1, n))):
        total = total * 2 + pair.sum()
    pairs = Pair(n, 3), Pair(n + 1, n)
    for i, pair in tl.static_iter(enumerate(pairs)):
        total = total + pair.first * i
    for pair, other in tl.static_iter(zip(pairs, pairs[::-1])):
        total = total + pair.first * other.second
    return total


def in_comprehensions(n):
    items = n, n + 1
    a = tuple(i * x for i, x in tl.static_iter(enumerate(items)))
    b = tuple(f(n) for f in tl.static_iter((lambda x: x + 7, scaled)))
    return a[0], a[1], b[0], b[1]


def falling_ranges(n):
    total, steps = 0, range(9, -1, -3)
    for i in tl.static_iter(steps):
        total = total * 10 + i
    for i in tl.static_iter(range(3, 0, -1)):
        total = total + i * n
    return total


FUNCTIONS = [over_tuples_and_lists, over_enumerate_and_zip, over_functions, over_records, in_comprehensions, falling_ranges]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_as_python_has_it(function):
    same(function, 0, 3, -5)


@pytest.mark.at_home
def test_on_the_emulator():
    same_on_the_emulator(FUNCTIONS, 3)


def test_over_a_list_of_arrays():
    @tl.kernel
    def kernel(arrays, out):
        total = tl.zeros((4,), tl.float32)
        for i, array in tl.static_iter(enumerate(arrays)):
            total = total + tl.load(array, 0, 4) * (i + 1)
        tl.store(out, 0, total)

    arrays = [torch.randn(4) for _ in range(3)]
    for run in (kernel[1], lambda *given: kernel.debug(1, *given)):
        out = torch.zeros(4)
        run(arrays, out)
        torch.testing.assert_close(out, arrays[0] + arrays[1] * 2 + arrays[2] * 3)


def is_power_of_two(n):
    while n > 1:
        if n % 2:
            return False
        n //= 2
    return True


@tl.function
def digits(n):
    count = 0
    for _ in range(n):
        count += 1
        if n < 10**count:
            break
    return count


@tl.kernel
def asserts(out, n: int, N: tl.Constant[int]):
    tl.static_assert(is_power_of_two(N), f"{N} is no power of two")
    tl.static_assert(digits(N) == 2)
    tl.static_assert(out.ndim == 1 and digits(N) < 3, N)
    tl.store(out, 0, n)


def test_a_helper_that_loops():
    for run in (asserts[1], lambda *given: asserts.debug(1, *given)):
        out = torch.zeros(1, dtype=torch.int32)
        run(out, 5, 16)
        assert out.item() == 5
    assert "loop" not in asserts.ir(out, 5, 16)


MESSAGES = [
    (0, "Static assertion failed: 0"),
    (7, "Static assertion failed: 7"),
    ((1, "a"), "Static assertion failed: (1, 'a')"),
    (None, "Static assertion failed: None"),
    ("", "Static assertion failed"),
    (Pair(1, 2), "Static assertion failed: Pair(first=1, second=2)"),
]


@pytest.mark.parametrize("message, text", MESSAGES, ids=str)
def test_a_value_as_message(message, text):
    @tl.kernel
    def kernel(out):
        tl.static_assert(out.ndim > 2, message)

    for run in (kernel[1], lambda *given: kernel.debug(1, *given)):
        with pytest.raises(tl.TileStaticAssertionError) as error:
            run(torch.zeros(1))
        assert error.value.message == text


def test_a_condition_of_the_running_kernel():
    @tl.kernel
    def kernel(out, n: int):
        tl.static_assert(is_power_of_two(n))

    text = "static_assert: the condition must be a compile-time constant; assert_() checks while it runs"
    with pytest.raises(tl.TileTypeError, match=re.escape(text)):
        kernel[1](torch.zeros(1), 4)


def test_a_slice_with_a_step_of_zero():
    @tl.kernel
    def kernel(out):
        tl.store(out, 0, (1, 2, 3)[::0][0])

    with pytest.raises(tl.TileValueError) as error:
        kernel[1](torch.zeros(1))
    assert error.value.message == "a slice's step must not be 0"


def test_a_name_that_is_defined_later():
    @tl.kernel
    def evaluated(out):
        tl.store(out, 0, tl.full((1,), tl.static_eval(later + 0.5), out.dtype))

    @tl.kernel
    def iterated(out):
        for i in tl.static_iter(range(later)):
            tl.store(out, 0, tl.full((1,), i + 1.5, out.dtype))

    out = torch.zeros(1)
    for kernel in (evaluated, iterated):
        with pytest.raises(tl.TileTypeError) as error:
            kernel[1](out)
        assert error.value.message == "Use of potentially undefined variable `later`; assign it on every way to here"
        assert len(error.value.frames) == 1
    later = 3
    for kernel in (evaluated, iterated):
        kernel[1](out)
        assert out.item() == 3.5
