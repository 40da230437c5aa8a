"""Tests functions as values in kernels: the closure cells that they read when called, joins of control-flow paths, and
calls of a function that is chosen at run time."""

import pytest
import tile_ops.language as tl
import torch
from python_meaning import same, same_on_the_emulator


def late_binding(n):
    total = 0
    f = lambda x=total: total + x  # noqa: E731
    total = 10
    for _ in range(n):
        total += f()

    def g():
        return f() + total

    total = 3
    if n > 1:
        total = 8
    return g(), f()


def make(k):
    def inner(x):
        return x * k + again(x)

    def again(x):
        return x if x is None else k + 1

    return inner


def pair_of(k):
    count = k
    add, get = lambda x: x + count, lambda: count
    count = count + 1
    return add, get


def constants_of_one_def(n):
    f = make(1) if n > 2 else make(2)
    g = make(3)
    if n == 3:
        g = make(n)
    return f(5), g(7)


def values_of_one_def(n):
    if n > 2:
        f = make(n * 3)
        add, get = pair_of(n)
    else:
        f = make(7)
        add, get = pair_of(2)
    g = make(1)
    for i in range(n):
        g = make(i)
    return f(2), g(10), add(1), get()


def twice(x):
    return x * 2


def thrice(x):
    return x * 3


def chosen(n):
    f = twice if n > 3 else thrice
    g, h = twice, abs
    if n == 1:
        g = lambda x: x + n  # noqa: E731
    elif n == 5:
        g = make(n)
    for i in range(n):
        h = twice if i > 1 else make(i)
    return f(5), g(6), h(-3)


def applied(f, x):
    return f(f(x))


FAST = True


def chosen_by_a_constant(n):
    if FAST:

        def helper(x):
            return x + n
    else:

        def helper(x):
            return x - n

    other = twice if not FAST else thrice
    k = 0
    while k < n:
        k = k + 1
        if FAST:
            other = make(2)
        else:
            other = abs
        k = other(k)
    return applied(helper, 5), other(4)


def chosen_and_passed_on(n):
    f = twice if n > 2 else make(n)
    both = f, make(n) if n == 4 else thrice
    if n > 3:
        both = both[1], both[0]
    return applied(f, 3), applied(both[0], 2), both[1](1)


def a_comprehension(n):
    k = 4
    a = tuple(k * n for k in tl.static_iter(range(3)))
    fs = tuple(lambda: k + n for k in tl.static_iter(range(3)))
    b = tuple((k, j) for k in tl.static_iter(range(k)) for j in tl.static_iter(range(k)) if j != 1)
    for _ in range(n):
        k = k + sum_of(tuple(k for k in tl.static_iter((1, 2))))
    return a[0], a[2], k, fs[0](), fs[1](), len(b), b[-1][0]


def sum_of(items):
    total = 0
    for each in tl.static_iter(items):
        total = total + each
    return total


SCALE = 7


def a_comprehension_of_a_global(n):
    a = tuple(SCALE + n for SCALE in tl.static_iter((1, 2)))
    return a[0], SCALE


def out_of_branches(n):
    """Uses after a branch every kind of object that can hold a value computed in it."""
    if n > 0:
        y = n * 5
        f, d, span, method = (lambda x=y: x + 1), dict_of(a=y, b=(y, 1)), slice(y, 9), make(y)
    else:
        z = n + 2
        f, d, span, method = (lambda x=z: x + 1), dict_of(a=z, b=(z, 4)), slice(z, 9), make(3)
    return f() if n > 0 else 5, d["a"], d["b"][0] + d["b"][1], span.start if n is None else 3, method(2)


def dict_of(**named):
    return named


def in_loops_that_leave(n):
    while True:
        f, t = make(n), (n, 5)
        n += 1
        if n > 4:
            t = t[1], 3
            break
        if n == 2:
            break
    return f(3), t[0], t[1]


def list_targets(n):
    [a, (b, [c, d])] = n, (2, (3, n + 1))
    [a, b] = b, a
    for [x, y] in tl.static_iter(((1, 2), (3, n))):
        d = d * x + y
    return a, b, c, d


FUNCTIONS = [late_binding, constants_of_one_def, values_of_one_def, chosen, chosen_by_a_constant, chosen_and_passed_on,
             a_comprehension, a_comprehension_of_a_global, in_loops_that_leave, list_targets]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_as_python_has_it(function):
    same(function, 0, 1, 3, 4, 5)


def test_values_of_branches():
    same(out_of_branches, 0, 3)


@pytest.mark.at_home
def test_on_the_emulator():
    same_on_the_emulator(FUNCTIONS[:6], 0, 3, 5)


def error_of(body):
    @tl.kernel
    def kernel(out, n: int):
        tl.store(out, 0, body(n))

    with pytest.raises(tl.TileError) as error:
        kernel[1](torch.zeros(1, dtype=torch.int32), 3)
    return error.value.message


def of_other_results(n):
    f = make(n) if n > 2 else dict_of
    return f(3)


def no_function(n):
    f = twice if n > 2 else 5
    return f(3)


def no_function_of_a_name(n):
    f = twice
    if n > 2:
        f = None
    return f(3)


@pytest.mark.parametrize(
    "body, text",
    [
        (of_other_results, "dict_of(): too many positional arguments; it takes (**named)"),
        (no_function, "Type of `x if c else y` depends on path taken: Function vs. Tile[int32,()]"),
        (no_function_of_a_name, "Type of `f` depends on path taken: None (line {1}) vs. Function (line {0})"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_errors(body, text):
    first = body.__code__.co_firstlineno
    assert error_of(body) == text.format(first + 1, first + 3)


def test_lambdas_are_kernels():
    double = tl.kernel(lambda x, out: tl.store(out, 0, tl.load(x, 0, 4) * 2))
    both = tl.kernel(num_worker_warps=4)(
        lambda x, out, N: (tl.store(out, 0, tl.where(not tl.load(x, 0, 4) > N, 1.0, 2.0)), tl.store(out, 1, N * 1.0))
    )
    x = torch.arange(4.0)
    for run in (lambda kernel: kernel[1], lambda kernel: lambda *given: kernel.debug(1, *given)):
        out = torch.zeros(4)
        run(double)(x, out)
        assert out.tolist() == [0, 2, 4, 6]
        out = torch.zeros(5)
        run(both)(x, out, 2)
        assert out.tolist() == [1, 2, 1, 2, 0]
    assert double.__name__ == "<lambda>" and "module" not in repr(double)


def test_a_lambda_that_gives_a_value():
    kernel = tl.kernel(lambda x: tl.load(x, 0, 4) + 1)
    with pytest.raises(tl.TileSyntaxError) as error:
        kernel[1](torch.zeros(4))
    assert error.value.message == "Tile kernels cannot return values; store them in an array"
