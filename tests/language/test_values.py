"""Compound values of kernels in Python, static evaluation, arguments of every kind, output."""

import dataclasses
import enum
import functools
import math
from typing import Annotated

import pytest
import tile_ops.language as tl
import torch


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


class Picky(enum.Enum):
    ONE = 1

    @classmethod
    def _missing_(cls, value):
        raise KeyError(value)


@pytest.mark.parametrize("kind, given", [(Mode, {}), (Mode, {"value": 1, "other": 2}), (Picky, {"value": 2})])
def test_calls_of_enumerations_that_python_refuses(kind, given):
    call = functools.partial(kind, **given)

    @tl.kernel
    def kernel(out):
        call()

    with pytest.raises(
        tl.TileTypeError, match=r"^(Mode|Picky)\(\) takes the value of a member; (TypeError|KeyError): "
    ) as error:
        kernel[1](torch.zeros(1))
    assert len(error.value.frames) == 1


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
