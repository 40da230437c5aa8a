"""Tests static_eval of arrays, records, methods and functions of tiles in a launch, in debug and on the emulator."""

import dataclasses
import operator

import pytest
import tile_ops.language as tl
import torch
from python_examples import on_the_emulator


@dataclasses.dataclass(frozen=True)
class Pair:
    first: object
    second: object = 5

    def total(self):
        return self.first + self.second

    @property
    def swapped(self):
        return Pair(self.second, self.first)

    @classmethod
    def twice(cls, value):
        return cls(value, value)


def helper(a, b):
    return a * 2 + b


BINARY = (
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.gt, operator.ge, operator.lt,
    operator.le, operator.eq, operator.ne, operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor,
)  # fmt: skip


@tl.kernel
def shapes(x, out):
    shape = tl.static_eval(x.shape)
    strides = tl.static_eval(x.strides[0] + x.ndim)
    t = tl.load(x, (0, 0), (2, 4))
    tl.store(out, 0, shape[0] * 10 + shape[1])
    tl.store(out, 1, strides)
    tl.store(out, 2, tl.static_eval(t.shape)[1] + tl.static_eval(t.shape[0] * 10))
    tl.store(out, 3, tl.static_eval((shape, t))[0][1])
    tl.store(out, 4, tl.static_eval(x.dtype == tl.float32) + tl.static_eval(len(x.shape)))


@tl.kernel
def records(x, out):
    n = tl.bid(0) + 10
    pair = Pair(n, second=7)
    same = tl.static_eval(pair)
    swapped = tl.static_eval(Pair(pair.second, pair.first))
    tl.store(out, 0, same.first * 10 + same.second)
    tl.store(out, 1, swapped.first * 100 + swapped.second + tl.static_eval(pair.swapped).first)
    tl.store(out, 2, tl.static_eval(pair.total()) + tl.static_eval(Pair.twice(n).first))
    tl.store(out, 3, tl.static_eval({"a": pair}["a"].first if pair.second == 7 else 0))
    held = {"p": pair, "t": (n, 2)}
    tl.store(out, 4, tl.static_eval(held["p"].first + held["t"][1]))


@tl.kernel
def methods(x, out):
    n = tl.bid(0) + 4
    t = tl.load(x, (0, 0), (2, 4))
    total = tl.static_eval(Pair(n).total)
    reshape = tl.static_eval(t.reshape)
    slice_method = x.slice
    sliced = tl.static_eval(slice_method)(0, 1, 2)
    make = tl.static_eval(Pair.twice)
    view = tl.static_eval(x.tiled_view)((1, 4))
    square = lambda a: a * a + n  # noqa: E731
    chosen = tl.static_eval(square if t.ndim == 2 else helper)
    tl.store(out, 0, total() + make(n).first)
    tl.store(out, 1, tl.sum(reshape((8,))))
    tl.store(out, 2, tl.load(sliced, (0, 0), ()))
    tl.store(out, 3, tl.sum(tl.static_eval(view).load((1, 0))))
    tl.store(out, 4, chosen(n))


@tl.kernel
def functions(x, out):
    a, b = tl.bid(0) + 15, tl.bid(1) + 4
    tl.store(out, 0, tl.static_eval(helper(a, b)) + tl.static_eval(helper)(a, b))
    tl.store(out, 1, tl.static_eval(tl.maximum(a, b) - tl.minimum(a, 3) + tl.cdiv(a, 2)))
    tl.store(out, 2, tl.static_eval(tl.where(a > b, tl.sqrt(16.0), -1.0) + abs(-a) + divmod(a, b)[1]))
    tl.store(out, 3, tl.static_eval(-a + +b - ~b))
    tl.store(out, 4, tl.static_eval(tl.exp if x.ndim == 7 else tl.negative)(a))


@tl.kernel
def operators(x, out):
    a, b = tl.bid(0) + 15, tl.bid(1) + 4
    for index in tl.static_iter(range(len(BINARY))):
        tl.store(out, index, tl.static_eval(BINARY[index](a, b)))


WANT = {
    shapes: [36, 8, 24, 6, 3],
    records: [107, 717, 27, 10, 12],
    methods: [13, 36, 6, 30, 20],
    functions: [68, 20, 22, -6, -15],
    operators: [float(each(15, 4)) for each in BINARY],
}


def arguments(kernel):
    return torch.arange(18.0).reshape(3, 6), torch.zeros(len(WANT[kernel]))


@pytest.mark.parametrize("kernel", WANT, ids=lambda each: each.__name__)
def test_values(kernel):
    x, out = arguments(kernel)
    kernel[1](x, out)
    assert out.tolist() == WANT[kernel]


@pytest.mark.parametrize("kernel", WANT, ids=lambda each: each.__name__)
def test_values_in_debug(kernel):
    x, out = arguments(kernel)
    kernel.debug(1, x, out)
    assert out.tolist() == WANT[kernel]


@pytest.mark.at_home
def test_values_on_the_emulator():
    for kernel in (records, methods, functions):
        x, out = arguments(kernel)
        with on_the_emulator(archs=(90,)):
            kernel[1](x, out)
        assert out.tolist() == WANT[kernel]


def test_how_values_show():
    seen = []

    @tl.kernel
    def kernel(x, s):
        t = tl.load(x, (0, 0), (4, 8))
        tl.static_eval(seen.extend([repr(t), repr(x), repr(s), repr(x.slice(0, 0, 2) if False else x.shape[0])]))

    kernel.check(torch.zeros(10, 10, dtype=torch.int32), 1.5)
    assert seen == ["<tile[int32, (4, 8)]>", "<array[int32, (?, ?)]>", "<tile[float32, ()]>", "<tile[int32, ()]>"]


def test_methods_of_objects():
    class Config:
        def __init__(self, block):
            self.block = block

        def rows(self, n):
            return self.block * n

    config = Config(4)

    @tl.kernel
    def kernel(out):
        tl.store(out, 0, tl.static_eval(config.rows(3)) + tl.static_eval(config.block))

    launched, debugged = torch.zeros(2, 1)
    kernel[1](launched)
    kernel.debug(1, debugged)
    assert launched.item() == debugged.item() == 16
