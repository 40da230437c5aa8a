"""Functions of the language over tiles, each in a kernel of its own: reductions over axes, running ones and those with
a function of several tiles, ranges, bytes, sub-tiles, rows and raw offsets."""

import itertools

import pytest
import torch
from built import load_operators

load_operators()
REDUCED, RUNNING, PLACES, WELFORD, EXTREMES, RANGES, BYTES, SUBTILES, ROWS, OFFSETS = range(10)
NONE = torch.zeros(1)
NUMBERS = [
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]
SHAPES = [(4, 6, 8), (1, 5), (7,), (3, 1, 33), (16, 64)]


def numbers(shape, dtype, high=4):
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(5)).to(dtype)


def masks(rank):
    """Sets of axes as bits; 0 names none, which are all."""
    return range(2**rank)


def axes_of(mask, rank):
    return [axis for axis in range(rank) if mask >> axis & 1] or list(range(rank))


def joined(x, axes):
    """The named axes as the last one, in row-major order."""
    others = [axis for axis in range(x.dim()) if axis not in axes]
    return x.permute(*others, *axes).reshape(*(x.shape[axis] for axis in others), -1)


def kept(y, x, axes, keepdims):
    return y.reshape([1 if axis in axes else n for axis, n in enumerate(x.shape)]) if keepdims else y


REDUCTIONS = [
    lambda x: x.sum(-1),
    lambda x: x.prod(-1),
    lambda x: x.amax(-1),
    lambda x: x.amin(-1),
    lambda x: x.any(-1),
    lambda x: x.all(-1),
    lambda x: first(x == x.amax(-1, keepdim=True)),
    lambda x: first(x == x.amin(-1, keepdim=True)),
]


def first(found):
    return found.int().argmax(-1)


def reductions():
    for k, (shape, dtype) in enumerate(itertools.product(SHAPES, NUMBERS)):
        for mask in masks(len(shape)):
            axes = axes_of(mask, len(shape))
            for which in (k % 4, 6 + k % 2):
                x = numbers(shape, dtype, 2 if which == 1 else 4)
                yield reduced(x, which, mask, axes, (k + mask) % 2, dtype if which < 4 else torch.int32)
    for shape in SHAPES:
        for mask, which in itertools.product(masks(len(shape)), (4, 5)):
            yield reduced(numbers(shape, torch.bool, 2), which, mask, axes_of(mask, len(shape)), 1, torch.bool)


def reduced(x, which, mask, axes, keepdims, dtype):
    wide = x if x.dtype == torch.bool else x.double()
    expected = kept(REDUCTIONS[which](joined(wide, axes)), x, axes, keepdims).to(dtype)
    return REDUCED, x, NONE, 0, x.shape, (which, mask, keepdims), expected.reshape(-1)


def running():
    for k, (shape, dtype) in enumerate(itertools.product(SHAPES, NUMBERS)):
        for axis, reverse, which in itertools.product(range(len(shape)), (0, 1), (k % 4, (k + 1) % 4)):
            x = numbers(shape, dtype, 2)
            wide = x.double().flip(axis) if reverse else x.double()
            y = [
                lambda: wide.cumsum(axis),
                lambda: wide.cumprod(axis),
                lambda: wide.cummax(axis)[0],
                lambda: wide.cummin(axis)[0],
            ][which]()
            y = y.flip(axis) if reverse else y
            yield RUNNING, x, NONE, 0, shape, (which, axis, reverse), y.to(dtype).reshape(-1)


def halves():
    """16-bit sums are rounded once: 1 and many small ones."""
    x = torch.full((512,), 2.0**-9).to(torch.bfloat16)
    x[0] = 1
    yield RUNNING, x, NONE, 0, (512,), (0, 0, 0), x.double().cumsum(0).to(torch.bfloat16)


def nans():
    """Extremes skip NaN, running ones too, unless nothing else is there."""
    nan = float("nan")
    for dtype, values in itertools.product(NUMBERS[5:], ([nan, 1, nan, 3, 2, nan], [nan, nan])):
        x = torch.tensor(values).to(dtype)
        there = [v for v in values if v == v]
        for which, best in ((2, max), (3, min)):
            seen = [[v for v in values[: i + 1] if v == v] for i in range(len(values))]
            sofar = torch.tensor([best(each) if each else nan for each in seen]).to(dtype)
            yield RUNNING, x, NONE, 0, (len(values),), (which, 0, 0), sofar
            yield REDUCED, x, NONE, 0, (1, len(values)), (which, 0, 1), sofar[-1:]
        for which, best in ((6, max), (7, min)):
            at = values.index(best(there)) if there else 0
            yield REDUCED, x, NONE, 0, (len(values), 1), (which, 0, 0), torch.tensor([at], dtype=torch.int32)


def places():
    for shape in SHAPES:
        for mask, keepdims in itertools.product(masks(len(shape)), (0, 1)):
            x, axes = numbers(shape, torch.float32), axes_of(mask, len(shape))
            line = joined(x, axes)
            at = first(line == line.amax(-1, keepdim=True))
            where = joined(torch.arange(x.numel()).reshape(shape), axes).gather(-1, at[..., None].long())[..., 0]
            yield PLACES, x, NONE, 0, shape, (mask, keepdims), torch.cat([line.amax(-1).flatten(), where.flatten()])


def welford():
    for shape in [(4, 6, 8), (5,), (3, 130), (1, 1)]:
        for mask in masks(len(shape)):
            x = torch.randn(shape, generator=torch.Generator().manual_seed(mask)) + 100
            line = joined(x.double(), axes_of(mask, len(shape)))
            mean, n = line.mean(-1), torch.full(line.shape[:-1], float(line.shape[-1]))
            parts = [each.float().flatten() for each in (mean, line.var(-1, correction=0) * n, n)]
            yield WELFORD, x, NONE, 0, shape, (mask,), torch.cat(parts)


def extremes():
    for shape in [(6,), (5, 7), (3, 130)]:
        for axis, reverse in itertools.product(range(len(shape))[-2:], (0, 1)):
            x = numbers(shape, torch.int32, 50)
            line = x.flip(axis) if reverse else x
            value = line.cummax(axis)[0]
            at = torch.zeros_like(line)
            for i in range(line.shape[axis]):  # the first in the scan's order of those seen so far
                seen = line.narrow(axis, 0, i + 1)
                now = (seen == seen.amax(axis, keepdim=True)).int().argmax(axis, keepdim=True)
                at.narrow(axis, i, 1).copy_(shape[axis] - 1 - now if reverse else now)
            pair = [each.flip(axis) if reverse else each for each in (value, at)]
            yield EXTREMES, x, NONE, 0, shape, (axis, reverse), torch.cat([t.float().flatten() for t in pair])


def ranges():
    for dtype, (size, start, step, n) in itertools.product(NUMBERS, [(7, 3, 2, 5), (1, 9, 1, 2), (33, 0, 3, 1)]):
        i = torch.arange(size)
        yield (
            RANGES,
            NONE,
            NONE,
            n,
            (1,),
            (size, start, step),
            torch.cat([i, start + i, start + i * step, n + i * n]).to(dtype),
        )
    yield (
        RANGES,
        NONE,
        NONE,
        -4,
        (1,),
        (5, -1, -3),
        torch.cat([torch.arange(5), torch.arange(5) - 1, -1 - 3 * torch.arange(5), -4 - 4 * torch.arange(5)]),
    )


def as_bytes():
    for dtype, shape in itertools.product([*NUMBERS, torch.float8_e4m3fn, torch.float8_e5m2], [(3, 5), (64,), (1,)]):
        x = numbers(shape, torch.float32, 90)
        x = (x - 40 if dtype not in (torch.uint8, torch.int8) else x).to(dtype)
        flat = x.reshape(-1)
        yield BYTES, flat, NONE, 0, shape, (0,), flat.view(torch.uint8)
        yield BYTES, flat.view(torch.uint8), NONE, 0, (1,), (flat.numel() * flat.itemsize,), flat


def subtiles():
    for (m, n), dtype, at in itertools.product([(4, 6), (64, 32), (2, 1)], (torch.float32, torch.int16), (-1, 0, 1, 2)):
        x = numbers((m, n), dtype)
        part = x[m // 2 :]
        expected, row = x.clone(), m // 2 * min(max(at, 0), 1)
        expected[row : row + m // 2] = part * 2 + part[0, min(max(at, 0), n - 1)]
        yield SUBTILES, x, NONE, at, (m, n), (0,), expected.reshape(-1)


def rows():
    cases = [
        ((9, 64), 0, (48,), [3, 0, -1, 8, 9]),
        ((9, 64), 1, (4,), [60, 2, 64, 5]),
        ((5, 16, 8), 2, (4, 8), [7, 0]),
        ((12, 20), 0, (20,), [11, 4]),
    ]
    for (shape, axis, lengths, index), dtype, at in itertools.product(cases, (torch.float32, torch.float16), (0, 1, 3)):
        x, expected = numbers(shape, dtype), torch.zeros(shape, dtype=dtype)
        others = [i for i in range(len(shape)) if i != axis]
        for i in index:
            if 0 <= i < shape[axis]:
                chosen = [slice(None)] * len(shape)
                chosen[axis] = i
                for k, (other, length) in enumerate(zip(others, lengths)):
                    chosen[other] = slice(4 * at, 4 * at + length) if k == 0 else slice(0, length)
                expected[tuple(chosen)] = x[tuple(chosen)]
        yield ROWS, x, torch.tensor(index), at, (len(index),), (axis, *lengths), expected


def offsets():
    for size, n in ((1, 0), (9, 2), (200, 31)):
        x, i = numbers((size + n + 3,), torch.float32), torch.arange(size)
        expected = torch.zeros_like(x)
        expected[i + n] = torch.where(i % 5 != 0, torch.where(i % 3 != 0, x[i + n], 0), expected[i + n])
        expected[n] = x[n + 1]
        yield OFFSETS, x, NONE, n, (size,), (0,), expected


FAMILIES = {
    f.__name__: f
    for f in (reductions, running, halves, nans, places, welford, extremes, ranges, as_bytes, subtiles, rows, offsets)
}


def call(operator, case, device="cpu"):
    """The operator's result for a case."""
    what, x, y, n, shape, given, expected = case
    flat = x if what in (ROWS, OFFSETS) else x.reshape(-1)
    return operator(flat.to(device), y.to(device), expected.shape, expected.dtype, what, n, shape, given).cpu()


def check(case, got):
    what, *_, expected = case
    assert got.dtype == expected.dtype
    if what == WELFORD:
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    else:
        torch.testing.assert_close(got.double(), expected.double(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_equals_torch(family, device):
    for case in FAMILIES[family]():
        check(case, call(torch.ops.tt.tiles, case, device))
