"""Control flow and calls of kernels in Python, against the same Python run as it is."""

import contextlib
import inspect
import operator
import re

import pytest
import tile_ops.language as tl
import torch

SCALE = 3  # a constant of the module


def both(body, *cases):
    """A body of integers runs as a kernel, out[0] = body(*arguments), and as Python."""

    @tl.kernel
    def one(out, a: int):
        tl.store(out, 0, body(a))

    @tl.kernel
    def two(out, a: int, b: int):
        tl.store(out, 0, body(a, b))

    kernel = one if len(inspect.signature(body).parameters) == 1 else two
    for case in cases:
        case = case if isinstance(case, tuple) else (case,)
        out = torch.full((1,), -77, dtype=torch.int32)
        kernel[1](out, *case)
        assert out.item() == int(body(*case)), case


def sums(n):
    total = 0
    for i in range(1, n, 2):
        total += i * SCALE
    return total


def breaks(n):
    total = 0
    for i in range(n):
        if i == 3:
            continue
        if i > 6:
            break
        total = total + i
    return total


def nested_loops(n):
    total = 0
    for i in range(n):
        for j in range(i):
            if j == 2:
                break
            total += i * j + 1
        if total > 40:
            break
    return total


def whiles(n):
    steps = 0
    while n != 1 and steps < 30:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def endless(n):
    k = 0
    while True:
        k += 2
        if k * k >= n:
            break
    return k


def branches(a, b):
    if a > b:
        c = a - b
        d = 1
    elif a == b:
        c = 100
        d = 2
    else:
        c, d = b, a
        c = c * 2
    return c + d


def early(a, b):
    if a > 10:
        return a
    if b > 10:
        if a > 5:
            return b * 2
        b = b - 1
    c = a + b
    if c == 7:
        return 70
    return c


def helper(x, y=2, *more, scale=1, **rest):
    total = x * y * scale
    for each in tl.static_iter(more):
        total = total + each
    return total + rest.get("extra", 0)


def chained(a, b):
    return 1 if 0 <= a < b <= 9 else (2 if not a or b < 0 and a > 3 else 3)


def returns_from_while(n):
    k = 0
    while k < 20:
        k += 3
        if k * k > n:
            return k * 100
        if k == n:
            return -1
    return 7


def nested_returns(n):
    i = 0
    while True:
        i += 1
        j = 0
        while j < i:
            j += 1
            if i * j == n:
                return i * 10 + j
            if i > 6:
                return -i
        if i == n:
            break
    return i


CASES = {
    "returns from while": (returns_from_while, (3, 9, 50, 1000)),
    "nested returns": (nested_returns, (1, 6, 7, 35, 12)),
    "sums": (sums, (0, 1, 2, 9)),
    "breaks": (breaks, (0, 3, 5, 12)),
    "nested loops": (nested_loops, (0, 2, 5, 9)),
    "whiles": (whiles, (1, 6, 7, 27)),
    "endless": (endless, (0, 3, 50)),
    "branches": (branches, ((1, 2), (2, 2), (7, 3))),
    "early": (early, ((11, 0), (6, 11), (2, 12), (3, 4), (1, 1))),
    "chained": (chained, ((1, 5), (0, 3), (5, -1), (9, 9), (10, 3))),
}


@pytest.mark.parametrize("name", CASES)
def test_it_runs_as_python_does(name):
    body, cases = CASES[name]
    both(body, *cases)


def unrolled(a):
    total = 0
    for i, w in tl.static_iter(enumerate((2, 3, 5))):
        total = total + i * w + a
    return total


def test_static_iter():
    @tl.kernel
    def kernel(out, a: int):
        tl.store(out, 0, unrolled(a))
        tl.store(out, 1, sum_of(tuple(a * k for k in tl.static_iter((1, 2, 3)) if k != 2)))

    def sum_of(items):
        total = 0
        for item in tl.static_iter(items):
            total = total + item
        return total

    out = torch.zeros(2, dtype=torch.int32)
    kernel[1](out, 4)
    assert out.tolist() == [13 + 12, 16]


def test_a_comprehension_over_anything_else():
    @tl.kernel
    def kernel(out):
        tl.store(out, 0, sum(tuple(k for k in range(3))))

    text = "All iterables in a tuple comprehension must be wrapped in tl.static_iter()"
    with pytest.raises(tl.TileSyntaxError, match=re.escape(text)):
        kernel[1](torch.zeros(1))


def test_tuples_are_repeated():
    @tl.kernel
    def kernel(out, a: int, N: tl.Constant[int]):
        x, y, z, w = (a, 3) * N
        tl.store(out, (0,) * out.ndim, tl.reshape(x + y * z + w, (1,) * out.ndim))
        items = 2 * (a,)
        items *= 2
        tl.store(out, (0, 1), items[3] + len(items) + len((1, 2) * 0))

    out = torch.zeros(1, 2, dtype=torch.int32)
    kernel[1](out, 5, 2)
    assert out.tolist() == [[5 + 3 * 5 + 3, 9]]


def test_calls_bind_as_python_does():
    @tl.kernel
    def kernel(out, a: int):
        tl.store(out, 0, helper(a))
        tl.store(out, 1, helper(a, 3, 4, 5, scale=2))
        tl.store(out, 2, helper(*(a, 1), **dict_of(extra=9)))

    def dict_of(**named):
        return named

    out = torch.zeros(3, dtype=torch.int32)
    kernel[1](out, 7)
    assert out.tolist() == [14, 51, 16]


def test_closures_lambdas_and_recursion():
    factor = 5

    def power(x, n):
        return 1 if n == 0 else x * power(x, n - 1)

    @tl.kernel
    def kernel(out, a: int):
        local = a + 1

        def inner(x):
            return x * local + factor

        local = a + 2  # the latest value counts, as in Python
        functions = (inner, lambda x, y=local: x - y)
        tl.store(out, 0, functions[0](a))
        tl.store(out, 1, functions[1](a))
        tl.store(out, 2, power(a, 4))
        tl.store(out, 3, operator.add(a, factor))

    out = torch.zeros(4, dtype=torch.int32)
    kernel[1](out, 3)
    assert out.tolist() == [3 * 5 + 5, -2, 81, 8]


@contextlib.contextmanager
def doubled(t, k=1):
    start = t * 2
    yield start + k
    _ = start


def test_with():
    @tl.kernel
    def kernel(x, out):
        t = tl.load(x, 0, 4)
        with doubled(t) as a, doubled(a, k=3) as b:
            total = a + b
        tl.store(out, 0, total)

    x, out = torch.randn(4), torch.zeros(4)
    kernel[1](x, out)
    torch.testing.assert_close(out, (2 * x + 1) + (2 * (2 * x + 1) + 3))


def test_a_kernel_returns_early():
    @tl.kernel
    def kernel(out, n: int):
        k = 0
        while True:
            k += 1
            if k > 5:
                tl.store(out, 1, k)
                return
            if k == n:
                break
        tl.store(out, 0, k)

    for n, want in ((3, [3, 0]), (9, [0, 6])):
        out = torch.zeros(2, dtype=torch.int32)
        kernel[1](out, n)
        assert out.tolist() == want


def test_names_of_both_branches_join():
    @tl.kernel
    def kernel(x, out, n: int):
        scale = 1.0
        tag = "same"
        if n > 0:
            t = tl.load(x, 0, 4)
            scale = 2.0
            tag = "same"
        else:
            t = tl.zeros((4,), tl.float32)
        tl.static_assert(tag == "same")
        tl.store(out, 0, t * scale + (1.0 if n > 5 else tl.sum(t)))

    x = torch.randn(4)
    for n in (-1, 1, 9):
        out = torch.zeros(4)
        kernel[1](x, out, n)
        want = (x * 2 if n > 0 else x * 0) + (1 if n > 5 else x.sum() if n > 0 else 0)
        torch.testing.assert_close(out, want)


def test_a_dead_constant_branch_is_not_translated():
    @tl.kernel
    def kernel(out, n: tl.Constant[int]):
        if n == 1:
            tl.store(out, 0, 1)
        else:
            undefined_function(out)  # noqa: F821
        y = 2 if n else undefined_name  # noqa: F821
        tl.store(out, 1, y)

    out = torch.zeros(2)
    kernel[1](out, 1)
    assert out.tolist() == [1, 2]


def test_tuples_and_unpacking():
    @tl.kernel
    def kernel(x, out):
        pair = (tl.load(x, 0, 4), (1, 2.5))
        for i in range(3):
            a, (b, c) = pair
            pair = (a + b, (b + i, c))
        first = second = pair[0]
        (t, u), v = (first, second), pair[1:]
        tl.static_assert(len(pair) == 2 and len(v) == 1 and (1, 2)[-1] == 2 and 3 in (1, 3))
        tl.store(out, 0, t + u + v[0][0] * v[0][1])

    x, out = torch.randn(4), torch.zeros(4)
    kernel[1](x, out)
    torch.testing.assert_close(out, 2 * (x + 1 + 1 + 2) + 4 * 2.5)
