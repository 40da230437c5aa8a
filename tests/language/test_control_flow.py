"""Control flow, calls, static evaluation and compound values of kernels in Python, against the same Python run as it is."""

import dataclasses
import enum
import inspect
import math
import operator
from typing import Annotated

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


CASES = {
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


class Mode(enum.Enum):
    FIRST = 1
    SECOND = 2


class Size(enum.IntEnum):
    SMALL = 4


@dataclasses.dataclass(frozen=True)
class Point:
    x: object
    y: object = 1

    def scaled(self, k):
        return dataclasses.replace(self, x=self.x * k)

    @property
    def total(self):
        return self.x + self.y

    def __call__(self, k):
        return self.x * k

    def __getitem__(self, at):
        return (self.x, self.y)[at]


def test_enums_strings_and_dataclasses():
    @tl.kernel
    def kernel(x, out, mode: tl.Constant, name: tl.Constant[str], p):
        t = tl.load(x, 0, 4)
        q = Point(t, y=2.0)
        for _ in range(2):
            q = q.scaled(p.x)
        if mode == Mode.SECOND and name + "!" == "b!":
            q = Point(q.total, q[1])
        tl.store(out, 0, q(2.0) + p.y + mode.value)

    x, out = torch.randn(4), torch.zeros(4)
    kernel[1](x, out, Mode.SECOND, "b", Point(3.0, 5))
    torch.testing.assert_close(out, (x * 9 + 2) * 2 + 5 + 2)
    kernel[1](x, out, Mode.FIRST, "b", Point(3.0, 5))
    torch.testing.assert_close(out, x * 18 + 5 + 1)
    assert kernel.compiled_count == 2


def test_static_eval_and_assert():
    table = {2: 10, 3: 20}

    @tl.kernel
    def kernel(x, out, n: tl.Constant[int]):
        t = tl.load(x, 0, 4)
        k = tl.static_eval([v for key, v in table.items() if key == n][0])
        tl.static_assert(k in (10, 20), "never")
        u = tl.static_eval(t + 1 if n % 2 else t * x.ndim)
        tl.store(out, 0, u + k)

    x, out = torch.randn(4), torch.zeros(4)
    for n in (2, 3):
        kernel[1](x, out, n)
        torch.testing.assert_close(out, (x + 1 if n % 2 else x) + table[n])


def test_arguments_of_every_kind():
    import numpy

    @tl.kernel
    def kernel(pair, arrays, flag: bool, wide: tl.ScalarInt64, sized: tl.IndexedWithInt64[tl.Array], fixed, out):
        tl.static_assert(sized.shape[0].dtype == tl.int64 and wide.dtype == tl.int64 and fixed.shape[0] == 4)
        total = tl.load(pair[0], 0, 4) * pair[1][0] + wide.astype(tl.float32)
        for i in range(len(arrays)):
            total = total + tl.load(arrays[i], 0, 4) * arrays[i].shape[0]
        if flag:
            total = -total
        tl.store(out, 0, total)

    fixed = Annotated[object, tl.ArrayAnnotation(static_shape_dims=(0,))]
    kernel._pyfunc.__annotations__["fixed"] = fixed
    kernel = tl.kernel(kernel._pyfunc)
    x, arrays, out = torch.randn(4), [torch.randn(4), torch.randn(5)], torch.zeros(4)
    for flag in (True, False):
        kernel[1]((x, (2.0, "unused")) if False else (x, (2.0,)), arrays, flag, 1 << 33, x, x, out)
        want = x * 2 + float(1 << 33) + arrays[0] * 4 + arrays[1][:4] * 5
        torch.testing.assert_close(out, -want if flag else want)
    if torch.get_default_device().type == "cpu":
        array = numpy.zeros(4, dtype=numpy.float32)
        kernel[1]((x.numpy(), (2.0,)), arrays, False, 0, x, x, array)
        torch.testing.assert_close(torch.from_numpy(array), x * 2 + arrays[0] * 4 + arrays[1][:4] * 5)


def test_constants_of_other_types_are_other_kernels():
    @tl.kernel
    def kernel(out, c: tl.Constant):
        tl.static_assert(c == 1)
        tl.store(out, 0, c if out.dtype == tl.float32 else 0)

    out = torch.zeros(1)
    for count, value in enumerate((1, 1.0, True, 1), 1):
        kernel[1](out, value)
        assert out.item() == 1 and kernel.compiled_count == min(count, 3)


def test_output(capfd):
    @tl.kernel
    def kernel(x, n: int):
        t = tl.load(x, 0, 2)
        print("n is", n, f"{n:>4} {t:.1f}", (1, n), None)
        tl.printf("%d%% %5.2f\n", n, t)

    kernel[1](torch.tensor([1.0, 2.5]), 7)
    if torch.get_default_device().type == "cuda":
        torch.cuda.synchronize()
    assert capfd.readouterr().out == "n is 7    7 [1.0, 2.5] (1, 7) None\n7% [ 1.00,  2.50]\n"


def test_assertions():
    @tl.kernel
    def kernel(x, out):
        t = tl.load(x, 0, 4)
        assert t < 3, "all below three"
        tl.assert_(t >= 0)
        tl.store(out, 0, t)

    out = torch.zeros(4)
    kernel[1](torch.ones(4), out)
    assert out.tolist() == [1] * 4
    if torch.get_default_device().type == "cpu":
        with pytest.raises(RuntimeError, match="all below three"):
            kernel[1](torch.full((4,), 3.0), out)


def test_constants_fold_as_python_does():
    @tl.kernel
    def kernel(out):
        tl.static_assert(7 // -2 == -4 and -7 % 3 == 2 and 2**10 == 1024 and 1 / 4 == 0.25 and (3 & 6) == 2)
        tl.static_assert(tl.cdiv(7, 2) == 4 and min(3, 2) == 2 and max(1.5, 1) == 1.5 and abs(-3) == 3 and -(-2) == 2)
        tl.static_assert(tl.sqrt(4.0) == 2 and tl.exp(0) == 1 and float("-inf") < 0 and int(2.7) == 2 and bool(3))
        tl.static_assert(math.pi > 3 and str(tl.float32) == "float32" and tl.float32 in (tl.int8, tl.float32))
        tl.store(out, 0, 1)

    out = torch.zeros(1)
    kernel[1](out)
    assert out.item() == 1
