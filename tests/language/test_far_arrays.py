"""Tests arrays whose extents, strides or offsets exceed int32: what kernels read, and addresses computed from them.

Their memory is allocated but hardly touched, or repeated by strides of 0."""

import pytest
import tile_ops.language as tl
import torch
from python_examples import on_the_emulator

FAR = 2**31 + 64
LONG = 2**31 + 8


def rows_far_apart(stride, rows=2):
    """Returns uint8[rows, 4] whose row r holds 10 r + 1, 10 r + 2, ..."""
    x = torch.empty(stride * (rows - 1) + 4, dtype=torch.uint8, device="cpu").as_strided((rows, 4), (stride, 1))
    for row in range(rows):
        x[row] = torch.arange(1, 5, dtype=torch.uint8, device="cpu") + 10 * row
    return x


def repeated(*shape, value=3.0):
    return torch.full((1,) * len(shape), value, device="cpu").expand(shape)


@tl.kernel
def described(x, shape, strides):
    for axis in tl.static_iter(range(x.ndim)):
        tl.store(shape, (axis,), x.shape[axis])
        tl.store(strides, (axis,), x.strides[axis])


@tl.kernel
def described_as_int64(x: tl.IndexedWithInt64[tl.Array], shape, strides):
    tl.static_assert(x.shape[0].dtype == tl.int64)
    tl.static_assert(x.strides[0].dtype == tl.int64)
    for axis in tl.static_iter(range(x.ndim)):
        tl.store(shape, (axis,), x.shape[axis])
        tl.store(strides, (axis,), x.strides[axis])


ARRAYS = {
    "a stride beyond int32": lambda: rows_far_apart(FAR),
    "a stride of 2^32": lambda: rows_far_apart(2**32),
    "a far stride of one row": lambda: rows_far_apart(2**33 + 5, 1),
    "a long axis": lambda: repeated(LONG),
    "a longer axis in the middle": lambda: repeated(2, 2**40 + 1, 3),
    "many elements, each axis short": lambda: repeated(2**16, 2**17),
    "the last of int32": lambda: repeated(2**31 - 1),
    "the first beyond": lambda: repeated(2**31),
    "small": lambda: torch.zeros(3, 5, device="cpu").t(),
    "nothing in it": lambda: torch.zeros(0, 5, device="cpu"),
}


def run_plain(kernel, *arguments):
    kernel[1](*arguments)


def run_debug(kernel, *arguments):
    kernel.debug(1, *arguments)


def run_emulated(kernel, *arguments):
    with on_the_emulator():
        kernel[1](*arguments)


WAYS = [run_plain, run_debug, run_emulated]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kernel", [described, described_as_int64])
@pytest.mark.parametrize("name", ARRAYS)
def test_shape_and_strides(name, kernel, way):
    x = ARRAYS[name]()
    shape, strides = (torch.zeros(x.dim(), dtype=torch.int64, device="cpu") for _ in range(2))
    way(kernel, x, shape, strides)
    assert tuple(shape.tolist()) == x.shape and tuple(strides.tolist()) == x.stride()


def test_small_arrays_keep_int32_extents():
    """Tests that extents are int64 only for arrays that need it, for which the kernel is compiled again."""
    out = torch.zeros(3, dtype=torch.int64, device="cpu")
    near, far = (described.ir(repeated(size), out, out) for size in (2**31 - 1, 2**31))
    assert "i32 = dim %0 {axis=0}" in near and "wide" not in near and "axis=0, dtype=i64}" not in near
    assert "i64 = dim %0 {axis=0, dtype=i64}" in far and "array.0.wide=1" in far
    many = described.ir(repeated(2**16, 2**17), out, out)
    assert "i64 = dim %0 {axis=0, dtype=i64}" in many and "wide" not in many


@tl.kernel
def one_of(a, b, out):
    """Marks which of two optional arrays was passed."""
    if a is not None:
        tl.store(out, 0, tl.load(a, 0, ()) + 1)
    else:
        tl.store(out, 0, tl.load(b, 0, ()) * 10)


def test_none_beside_an_array():
    """Tests that None in front of an array, and behind it, are different keys."""
    for size in (4, 2**31):
        x = torch.full((1,), 3, dtype=torch.uint8, device="cpu").expand(size)
        found = []
        for arguments in ((None, x), (x, None)):
            out = torch.zeros(1, dtype=torch.uint8, device="cpu")
            one_of[1](*arguments, out)
            found += out.tolist()
        assert found == [30, 4]


@tl.kernel
def picked(x, out, row: int):
    """Reads a row at the address computed from its stride, and by load and gather."""
    at = row * x.strides[0] + tl.arange(4, dtype=tl.int32) * x.strides[1]
    tl.store(out, (0,), x.get_raw_memory().load_offset(at))
    tl.store(out, (1,), tl.load(x, (row, 0), (1, 4)).reshape((4,)))
    tl.store(out, (2,), tl.gather(x, (row, tl.arange(4, dtype=tl.int32))))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stride", [FAR, 2**32, 2**29 + 3])
def test_addresses_made_of_strides(stride, way):
    """Includes a stride that fits in int32, as the extents do, but whose product with the row index does not."""
    rows = 9 if stride < 2**30 else 2
    x, out = rows_far_apart(stride, rows), torch.zeros(12, dtype=torch.uint8, device="cpu")
    way(picked, x, out, rows - 1)
    assert out.view(3, 4).tolist() == [[10 * (rows - 1) + i for i in range(1, 5)]] * 3


@tl.kernel
def at_the_end(x, out, first: tl.ScalarInt64):
    """Reads around the last elements of a long axis, where elements beyond the end are padding."""
    n = x.shape[0]
    i = tl.cdiv(n, 16) - 1
    tl.store(out, (0,), tl.load(x, (i,), (16,)))
    tl.store(out, (1,), tl.gather(x, (first + tl.arange(16, dtype=tl.int64),), padding_value=7.0))
    tl.store(out, (2,), tl.load(x.slice(0, n - 5, n), (0,), (16,)))
    tl.store(out, (3,), tl.load(x.slice(0, first - 2**33, n), (2**29,), (16,)))
    rest = n - i.astype(tl.int64) * 16
    tl.store(out, (4,), tl.where(tl.arange(16, dtype=tl.int64) < rest, 1.0, 0.0))
    tl.store(out, (5,), x.tiled_view((16,)).load((tl.num_tiles(x, 0, (16,)) - 1,)))
    tl.store(out, (6,), tl.load(x, (-1,), (16,)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [LONG, 2**31, 2**35 + 11])
def test_tiles_of_a_long_axis(size, way):
    x, out = repeated(size), torch.full((7 * 16,), -1.0, device="cpu")
    first = size - 3
    way(at_the_end, x, out, first)

    def row(there, other=0.0):
        return [3.0] * there + [other] * (16 - there)

    left = (size - 1) % 16 + 1
    slid = first - 2**33  # where the slice begins
    shown = [3.0 if 0 <= slid + 2**33 + i < size else 0.0 for i in range(16)]
    expected = [row(left), row(3, 7.0), row(5), shown, [1.0] * left + [0.0] * (16 - left), row(left), row(0)]
    assert out.view(7, 16).tolist() == expected


@tl.kernel
def written(x, row: int):
    tl.store(x, (row, 0), tl.full((1, 4), 9, tl.uint8))
    x.get_raw_memory().store_offset(row * x.strides[0] + 1, 5)
    tl.scatter(x, (row, tl.arange(1, dtype=tl.int32) + 3), 7)


@pytest.mark.parametrize("way", WAYS)
def test_stores(way):
    x = rows_far_apart(FAR)
    way(written, x, 1)
    assert x.tolist() == [[1, 2, 3, 4], [9, 5, 9, 7]]


@tl.kernel
def summed(xs, out):
    total = tl.zeros((), tl.float32)
    for i in range(len(xs)):
        x = xs[i]
        tl.store(out, (i,), x.shape[0])
        total += tl.load(x, (x.shape[0] - 1,), ())
    tl.store(out, (2,), total.astype(tl.int64))


def test_lists_of_near_and_far_arrays():
    out = torch.zeros(3, dtype=torch.int64, device="cpu")
    for run in (run_plain, run_debug):
        run(summed, [repeated(LONG), repeated(5, value=4.0)], out.zero_())
        assert out.tolist() == [LONG, 5, 7]


@tl.kernel
def chosen(x, y, out, which: int):
    array = x if which else y
    tl.store(out, (0,), array.shape[0])


def test_a_choice_of_near_and_far_arrays():
    out = torch.zeros(1, dtype=torch.int64, device="cpu")
    for which, size in ((1, LONG), (0, 5)):
        chosen[1](repeated(LONG), repeated(5), out, which)
        assert out.tolist() == [size]
