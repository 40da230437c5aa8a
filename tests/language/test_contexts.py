"""Tests with and try: context managers that yield in branches, loops and other `with`s, closures that outlive them, records."""

import contextlib
import dataclasses

import pytest
import tile_ops.language as tl
import torch
from python_meaning import same, same_on_the_emulator


@contextlib.contextmanager
def late(n):
    a = n
    yield lambda: a
    a = n + 1


def after_the_exit(n):
    with late(n) as f:
        inside = f()
    return inside, f()


@contextlib.contextmanager
def around(n):
    total = n
    with late(n * 2) as f:
        total = total + f()
        yield lambda x: x + total + f()
        total = total * 3
    total = total - f()


@contextlib.contextmanager
def twice_around(n):
    with around(n) as f, late(n) as g:
        yield lambda x: f(x) * 10 + g()


def with_in_with(n):
    with around(n) as g, late(n) as f:
        with late(g(0)) as h:
            x = g(1) + f() + h()
        y = h()
    with twice_around(n) as k:
        z = k(1)
    return x, y, g(2), f(), z, k(2)


@contextlib.contextmanager
def in_branches(n):
    k = 1
    if n > 3:
        k = 2
        yield lambda: k * 10
        k = 7
    else:
        with late(n) as f:
            yield lambda: k * 100 + f()
        k = 9
    k += 1


def yields_in_branches(n):
    total = 0
    with in_branches(n) as f:
        total += f()
        if n == 5:
            total += 1000
    return total, f()


def jumps_out_of_branches(n):
    total = 0
    for i in range(n):
        with in_branches(i) as f:
            if i == 2:
                continue
            total = total * 2 + f()
            if i == 6:
                break
        total += f()
    return total


def returns_out_of_branches(n):
    with in_branches(n) as f:
        if n > 1:
            return f(), 5
        x = 3 + f()
    return x, f()


def returns_out_of_a_loop(n):
    with in_branches(n) as f:
        k = 0
        while k < 6:
            with late(k) as g:
                k += 1
                if k == n:
                    return k * 100 + g(), f()
    return k, f()


DEEP = 2


@contextlib.contextmanager
def unrolled(n):
    t = 0
    if DEEP > 1:
        for i in tl.static_iter(range(4)):
            t = t + i
            if i == DEEP:
                yield lambda: t * n
            t = t + 1
    else:
        yield lambda: 0


def yields_in_unrolled_loops(n):
    with unrolled(n) as f:
        x = f()
    return x, f()


@contextlib.contextmanager
def with_finally(n):
    k = n
    try:
        k = k + 1
        sent = yield lambda: k
        k = k * 2
    finally:
        k = k + 5
    k = k + (1 if sent is None else 2)


def finally_around_yield(n):
    total = 0
    for i in range(5):
        with with_finally(i) as f:
            if i == n:
                break
            total += f()
        total = total * 3 + f()
    return total


def finally_in_a_function(n):
    total = 1
    for i in range(6):
        try:
            if i == n:
                continue
            if i > 4:
                break
            total = total + i
        finally:
            total = total * 2
    try:
        try:
            if n > 2:
                return total
            total += 7
        finally:
            total += 1000
    finally:
        total += 1
    return total + 1


def out_of_a_loop(n):
    while True:
        with late(n) as f:
            if n > 5:
                break
            n = n + f() + 1
    return f(), n


@dataclasses.dataclass(frozen=True)
class Scaled:
    by: object

    def __enter__(self):
        return self.by * 2

    def __exit__(self, kind, value, trace):
        tl_nothing(self.by)


def tl_nothing(x):
    return x


def records(n):
    total = 0
    scaled = Scaled(n)
    for i in range(4):
        with Scaled(i) as a, scaled as b:
            total += a * b
            if total > 10:
                break
    return total


def a_tuple_is_yielded(n):
    with pair(n) as (a, (b, f)):
        a = a + b
    return a, f()


@contextlib.contextmanager
def pair(n):
    yield n, (n + 1, lambda: n)
    n = 5


FUNCTIONS = [after_the_exit, with_in_with, yields_in_branches, jumps_out_of_branches, returns_out_of_branches,
             returns_out_of_a_loop, yields_in_unrolled_loops, finally_around_yield, finally_in_a_function, out_of_a_loop,
             records, a_tuple_is_yielded]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_as_python_has_it(function):
    same(function, 0, 1, 2, 4, 5, 9)


@pytest.mark.at_home
def test_on_the_emulator():
    same_on_the_emulator(FUNCTIONS[:10], 0, 2, 5)


@contextlib.contextmanager
def in_a_loop(n):
    for _ in range(n):
        yield n


@contextlib.contextmanager
def in_an_expression(n):
    a = n + (yield n)
    tl.static_assert(a)


@contextlib.contextmanager
def yields_from(n):
    yield from (n, n)


@contextlib.contextmanager
def returns_early(n):
    yield n
    if n > 3:
        return
    tl.static_assert(False)


@contextlib.contextmanager
def not_on_each_way(n):
    if n > 3:
        yield n


@contextlib.contextmanager
def catches(n):
    try:
        yield n
    except ValueError:
        pass


@contextlib.contextmanager
def jumps_out_of_finally(n):
    for _ in tl.static_iter((n,)):
        try:
            k = n
        finally:
            while n > 0:
                n = n - 1
                if n == k:
                    break
    for i in range(n):
        try:
            k = i
        finally:
            break
    yield k


MISTAKES = {
    jumps_out_of_finally: "Unsupported syntax: a jump out of `finally`; jump after it",
    in_a_loop: "in_a_loop: the `yield` must be outside of loops of the running kernel",
    in_an_expression: "a `yield` must be a statement, or be assigned, not within Assign",
    yields_from: "yields_from: `yield from` in a context manager is not supported; write `with` and `yield`",
    returns_early: "returns_early: `return` in a context manager is not supported; put what it skips into an `if`",
    not_on_each_way: "not_on_each_way: a context manager must `yield` on each path through it",
    catches: "Unsupported syntax: Try; nothing raises in a kernel; test with if",
}


@pytest.mark.parametrize("manager", MISTAKES, ids=lambda each: each.__name__)
def test_errors(manager):
    @tl.kernel
    def kernel(out, n: int):
        with manager(n) as a:
            tl.store(out, 0, a)

    with pytest.raises(tl.TileSyntaxError) as error:
        kernel[1](torch.zeros(1, dtype=torch.int32), 3)
    assert error.value.message == MISTAKES[manager]
    assert [frame["function"] for frame in error.value.frames] == ["kernel", manager.__name__]


def test_an_error_in_the_body_has_its_own_line():
    @tl.kernel
    def kernel(out, n: int):
        with around(n) as f:
            tl.store(out, 0, f(1) + undefined_name)  # noqa: F821

    with pytest.raises(tl.TileSyntaxError) as error:
        kernel[1](torch.zeros(1, dtype=torch.int32), 3)
    (frame,) = error.value.frames
    assert error.value.message == "Undefined variable undefined_name" and frame["function"] == "kernel"
    assert frame["line"] == kernel._pyfunc.__code__.co_firstlineno + 3
