"""Tests dtypes called without arguments, with strings and numbers; and members of enumerations and dictionaries as numbers."""

import enum
import math

import pytest
import tile_ops.language as tl
import torch
from python_examples import on_the_emulator


class Size(enum.IntEnum):
    ROWS = 2
    COLUMNS = 4


@tl.kernel
def called(out, n):
    low = tl.float32("-inf")
    tl.store(out, 0, tl.float32() + tl.int32() * n + tl.bool_())
    tl.store(out, 1, low)
    tl.store(out, 2, tl.maximum(low, n) + tl.float16("1.5") + tl.int64("12"))
    tl.store(out, 3, tl.float32("nan"))
    tl.store(out, 4, tl.int8("300") + tl.float32(" 2e1 "))
    tl.static_assert(tl.int16().dtype == tl.int16 and tl.float32("inf") > 1e30 and tl.bool_() == False)  # noqa: E712
    tl.static_assert(out.dtype("0.25") == 0.25)


@tl.kernel
def sized(x, out):
    sizes = {"rows": Size.ROWS, "columns": Size.COLUMNS}
    t = tl.load(x, (0, Size(2) - 1), (sizes["rows"], Size.COLUMNS))
    u = tl.reshape(t, (sizes["columns"], Size.ROWS)) * Size.ROWS + tl.full((Size.COLUMNS, 2), Size.ROWS, tl.float32)
    total = tl.sum(u, axis=(sizes["rows"] - 1)) - tl.arange(Size.COLUMNS, dtype=tl.float32, start=Size.ROWS)
    for i in range(Size.ROWS, Size.COLUMNS):
        total = total + i
    for _ in tl.static_iter(range(Size.ROWS)):
        total = total << 0 if total.dtype == tl.int32 else total + 1
    tl.store(out, 0, total)


def results(run):
    return run(called, torch.zeros(5), 3), run(sized, torch.arange(24.0).reshape(3, 8), torch.zeros(4))


def check(given):
    (first,), (second,) = given
    assert first[:3].tolist() == [0.0, -math.inf, 16.5] and math.isnan(first[3]) and first[4] == 64
    t = torch.arange(24.0).reshape(3, 8)[:2, 4:].reshape(4, 2)
    assert torch.equal(second, (t * 2 + 2).sum(1) - torch.arange(4.0) - 2 + 5 + 2)


def launched(kernel, *arguments):
    kernel[1](*arguments)
    return [each for each in arguments if isinstance(each, torch.Tensor)][-1:]


def debugged(kernel, *arguments):
    kernel.debug(1, *arguments)
    return [each for each in arguments if isinstance(each, torch.Tensor)][-1:]


@pytest.mark.parametrize("run", [launched, debugged])
def test_values(run):
    check(results(run))


@pytest.mark.at_home
def test_values_on_the_emulator():
    with on_the_emulator(archs=(90,)):
        check(results(launched))


WRONG = [("x", "float32(): the string 'x' is not a number"), ("", "float32(): the string '' is not a number")]


@pytest.mark.parametrize("text, message", WRONG)
def test_other_texts(text, message):
    @tl.kernel
    def kernel(out, t: tl.Constant[str]):
        tl.store(out, 0, tl.float32(t))

    out = torch.zeros(1)
    for run in (kernel[1], lambda *given: kernel.debug(1, *given)):
        with pytest.raises(tl.TileValueError) as error:
            run(out, text)
        assert error.value.message == message
    kernel[1](out, "1e3")
    assert out.item() == 1000
