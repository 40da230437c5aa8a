"""Tests against Python which names are assigned after loops and branches, and blocks where every path jumps."""

import re

import pytest
import tile_ops.language as tl
import torch
from python_meaning import same, same_on_the_emulator

FLAG = True


def before_a_break(n):
    while True:
        y = n * 2
        z = 5 if y > 8 else 6
        n += 1
        if n > 5:
            break
    for i in range(2, 8):
        k = i * n
    return y, z, n, i, k


def on_each_break(n):
    while FLAG:
        n = n * 2 + 1
        if n > 9:
            a, b = n, (n, 2)
            break
        else:
            if n % 4 == 3:
                a, b = 7, (4, 3)
                if n > 4:
                    break
        c = 5  # noqa: F841
    return a, b[0], b[1]


def loops_in_loops(n):
    for i in range(3):
        while True:
            y = i + n
            if y > 2:
                break
            n += 1
        n += y
    while True:
        k = a_loop(n)
        if k > n:
            q = k
            break
        n -= 1
        if n < 0:
            q = -1
            break
    return n, y, q, i


def a_loop(n):
    while True:
        if n > 3:
            r = n
            break
        n = n * 2 + 1
        continue
    return r


def through_continue(n):
    for i in range(4):
        if FLAG:
            w = i * n
        else:
            continue
        if w > 5:
            break
    for i in range(7, 1, -2):
        if i == 3:
            u = 4
            continue
        u = i
    return w, i, u


def of_a_target(n):
    i = "text"
    for i in range(3, 9, 2):
        n += i
    j = 0.5
    for j in range(4):
        if j > n:
            break
    return n, i, j


def returns_between(n):
    while True:
        y = n + 1
        if y > 6:
            return y, 0
        if y == 4:
            break
        n += 2
    return y, n


def both_arms_jump(n):
    total = 0
    while True:
        total += n
        if FLAG:
            if total > 10:
                break
            else:
                continue
        total = 0
    for i in range(n):
        total += i
        if total > 20:
            if FLAG:
                break
            else:
                continue
        elif FLAG:
            continue
        total = 0
    return total


def both_arms_break(n):
    y = 1
    for i in range(n):
        if i > 2:
            y = 3
            break
        else:
            y = 5
            break
    return y


def both_arms_return(n):
    if FLAG:
        if n > 3:
            return inner_returns(n)
        else:
            return 6
    return 7


def inner_returns(n):
    i = 0
    while i < 3:
        i += 1
        while True:
            if n > i:
                return n
            else:
                return i
    return 7


def arms_that_return_or_jump(n):
    while True:
        n += 1
        if FLAG:
            if n > 3:
                return n
            else:
                if n == 2:
                    break
                continue
        n = 100
    return -n


def never(n):
    while False:
        n = 5
        if n > 7:
            return 5
    while not FLAG:
        n = 7
        if n > 5:
            break
    if FLAG:
        k = 3
    return n + k


FUNCTIONS = [before_a_break, on_each_break, loops_in_loops, through_continue, of_a_target, returns_between, both_arms_jump,
             both_arms_break, both_arms_return, arms_that_return_or_jump, never]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_as_python_has_it(function):
    same(function, 1, 2, 3, 4, 7)


@pytest.mark.at_home
def test_on_the_emulator():
    same_on_the_emulator(FUNCTIONS, 1, 2, 7)


def test_tiles_and_arrays_leave_a_loop():
    @tl.kernel
    def kernel(x, out, n: int):
        i = 0
        while True:
            part = x.slice(0, i, i + 4)
            tile = tl.load(part, 0, 4)
            i += 1
            if i > n:
                tile = tile * 2
                break
        tl.store(out, 0, tile + tl.load(part, 0, 4))

    x = torch.arange(12.0)
    for run in (kernel[1], lambda *given: kernel.debug(1, *given)):
        out = torch.zeros(4)
        run(x, out, 3)
        assert torch.equal(out, 3 * x[3:7])


def one_break_does_not(n):
    while True:
        if n > 5:
            y = n
            break
        n += 1
        if n == 3:
            break
    return y


def no_turn_perhaps(n):
    for i in range(n):
        y = i
    return y


def of_two_types(n):
    while True:
        if n > 5:
            y = n
            break
        n += 1
        if n == 3:
            y = 0.5
            break
    return y


UNDEFINED = "Use of potentially undefined variable `y`; assign it on every way to here"


@pytest.mark.parametrize(
    "function, text",
    [
        (one_break_does_not, UNDEFINED), (no_turn_perhaps, UNDEFINED),
        (of_two_types, "Type of `y` depends on path taken: Tile[int32,()] (line N) vs. Tile[float32,()] (line N)"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)  # fmt: skip
def test_errors(function, text):
    @tl.kernel
    def kernel(out, n: int):
        tl.store(out, 0, function(n))

    with pytest.raises(tl.TileTypeError) as error:
        kernel[1](torch.zeros(1), 3)
    assert re.sub(r"line \d+", "line N", error.value.message) == text


def test_names_assigned_before_their_next_read_do_not_leave_a_loop():
    """Tests that a name that is reassigned before its next read is not a live-out of the loop."""

    @tl.kernel
    def kernel(out, n: int):
        while True:
            y = n * 2
            n += 1
            if n > 5:
                break
        y = n
        for i in range(3):
            k = i
            n += k
        for i in range(2):
            n += i
        tl.store(out, 0, y + n)

    text = kernel.ir(torch.zeros(1, dtype=torch.int32), 2)
    assert re.search(r"= loop %\w+ \(%\w+: i32\) \{", text) and text.count(": i32) {") == 4  # three loops and the kernel itself
