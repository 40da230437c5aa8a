"""Loads, stores, views, gathers, scatters, raw offsets and atomics of kernels in Python."""

import math

import pytest
import tile_ops.language as tl
import torch

DTYPES = [torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
torch.uint64,



          torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2]  # fmt: skip


def numbers(shape, dtype):
    return torch.randint(0, 2 if dtype == torch.bool else 9, shape).to(dtype)


def equal(got, want):
    assert torch.equal(got.to(torch.float64), want.to(torch.float64))


@tl.kernel
def copy_kernel(x, out, M: tl.Constant[int], N: tl.Constant[int]):
    i, j = tl.bid(0), tl.bid(1)
    tl.store(out, (i, j), tl.load(x, (i, j), (M, N)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_copy_of_odd_shapes(dtype):
    x = numbers((13, 21), dtype)
    out = numbers((13, 21), dtype)
    copy_kernel[4, 3](x, out, 4, 8)
    equal(out, x)


@pytest.mark.parametrize("mode, value", [("ZERO", 0.0), ("NAN", math.nan), ("POS_INF", math.inf), ("NEG_INF", -math.inf)])
def test_padding(mode, value):
    padding = tl.PaddingMode[mode]

    @tl.kernel
    def padded(x, out):
        tl.store(out, 0, tl.load(x, 0, 8, padding_mode=padding))

    x, out = torch.randn(5), torch.zeros(8)
    padded[1](x, out)
    torch.testing.assert_close(out, torch.cat([x, torch.full((3,), value)]), equal_nan=True, rtol=0, atol=0)


def test_one_element_and_scalars():
    @tl.kernel
    def one(x, out):
        value = tl.load(x, (1, 2), ())
        tl.store(out, (2, 1), value)
        tl.store(out, (0, 0), 7)

    x, out = torch.randn(3, 4), torch.zeros(3, 4)
    one[1](x, out)
    want = torch.zeros(3, 4)
    want[2, 1], want[0, 0] = x[1, 2], 7
    equal(out, want)


def test_arrays_of_no_axes():
    @tl.kernel
    def twice(x, out):
        tl.store(out, (), 2 * tl.load(x, (), ()))

    x, out = torch.randn(()), torch.zeros(())
    twice[1](x, out)
    equal(out, 2 * x)


@pytest.mark.parametrize("order", ["F", (2, 0, 1)])
def test_order_of_axes(order):
    axes = (2, 1, 0) if order == "F" else order

    @tl.kernel
    def ordered(x, out):
        tl.store(out, (0, 0, 0), tl.load(x, (0, 0, 0), (8, 8, 8), order=order))

    x = torch.randn(3, 5, 7)
    out = torch.zeros(x.permute(axes).shape)
    ordered[1](x, out)
    equal(out, x.permute(axes))


def test_views_with_steps():
    @tl.kernel
    def windows(x, out):
        view = x.tiled_view((4,), traversal_steps=3, padding_mode=tl.PaddingMode.ZERO)
        to = out.tiled_view((1, 4))
        for i in range(view.num_tiles(0)):
            to.store((i, 0), view.load(i)[None, :])

    x, out = torch.randn(10), torch.zeros(4, 4)
    windows[1](x, out)
    padded = torch.cat([x, torch.zeros(3)])
    equal(out, torch.stack([padded[3 * i : 3 * i + 4] for i in range(4)]))


def test_slices():
    @tl.kernel
    def sliced(x, out, first: int):
        part = x.slice(0, first, first + 3).slice(1, 1, 4)
        tl.static_assert(part.shape[1] == 3)
        tl.store(out, (0, 0), tl.load(part, (0, 0), (4, 4), padding_mode=tl.PaddingMode.ZERO))

    x, out = torch.randn(7, 6), torch.full((4, 4), 9.0)
    sliced[1](x, out, 2)
    equal(out[:3, :3], x[2:5, 1:4])
    assert (out[3] == 0).all() and (out[:, 3] == 0).all()


def test_gather_with_masks_and_padding():
    @tl.kernel
    def gathered(x, out, low: int):
        i = tl.arange(8, dtype=tl.int64) + low
        tl.store(out, (0, 0), tl.gather(x, i)[None, :])
        tl.store(out, (1, 0), tl.gather(x, i, mask=i % 2 == 0, padding_value=5)[None, :])
        tl.store(out, (2, 0), tl.gather(x, i, padding_value=i.astype(tl.float32))[None, :])

    x, out = torch.randn(5), torch.zeros(3, 8)
    gathered[1](x, out, -2)
    i = torch.arange(-2, 6)
    inside = (i >= 0) & (i < 5)
    values = x[i.clamp(0, 4)]
    equal(out[0], torch.where(inside, values, 0))
    equal(out[1], torch.where(inside & (i % 2 == 0), values, 5))
    equal(out[2], torch.where(inside, values, i.float()))


def test_gather_of_integers_with_padding():
    @tl.kernel
    def gathered(x, out):
        tl.store(out, 0, tl.gather(x, tl.arange(8, dtype=tl.int32), padding_value=-3))

    x, out = torch.arange(5, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    gathered[1](x, out)
    assert out.tolist() == [0, 1, 2, 3, 4, -3, -3, -3]


def test_scatter():
    @tl.kernel
    def scattered(x, out):
        rows, columns = tl.arange(4, dtype=tl.int32)[:, None], tl.arange(4, dtype=tl.int32)[None, :]
        tl.scatter(out, (rows, 3 - columns), tl.load(x, (0, 0), (4, 4)), mask=rows != 1)
        tl.scatter(out, (rows + 2, columns), 1.0, mask=columns == 0)

    x, out = torch.randn(4, 4), torch.zeros(4, 4)
    scattered[1](x, out)
    want = x.flip(1)
    want[1] = 0
    want[2:, 0] = 1
    equal(out, want)


def test_raw_offsets():
    @tl.kernel
    def raw(x, out):
        i = tl.arange(8, dtype=tl.int32)
        memory, to = x.get_raw_memory(), out.get_raw_memory()
        to.store_offset(7 - i, memory.load_offset(i, mask=i < 6, padding_value=-1), mask=i != 3)

    x, out = torch.randn(2, 4), torch.zeros(8)
    raw[1](x, out)
    want = torch.where(torch.arange(8) < 6, x.flatten(), -1)
    want[3] = 0
    equal(out, want.flip(0))


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint32, torch.int64, torch.uint64])
def test_atomics_of_integers(dtype):
    @tl.kernel
    def changed(x, old):
        i = tl.arange(4, dtype=tl.int32)
        two = tl.full((), 2, x.dtype)
        tl.store(old, (0, 0), tl.atomic_add(x, i, 3)[None, :])
        tl.store(old, (1, 0), tl.atomic_max(x, i, two * 3)[None, :])
        tl.store(old, (2, 0), tl.atomic_min(x, i, two * 4)[None, :])
        tl.store(old, (3, 0), tl.atomic_and(x, i, two * 3)[None, :])
        tl.store(old, (4, 0), tl.atomic_or(x, i, tl.ones((), x.dtype))[None, :])
        tl.store(old, (5, 0), tl.atomic_xor(x, i, two)[None, :])
        tl.store(old, (6, 0), tl.atomic_xchg(x, i, 9)[None, :])
        tl.store(old, (7, 0), tl.atomic_cas(x, i + 2, 9, 1)[None, :])

    x = torch.arange(4).to(dtype)
    old = torch.zeros(8, 4).to(dtype)
    changed[1](x, old)
    v = torch.arange(4)
    rows = [v, v + 3]
    rows.append(rows[-1].clamp(min=6))
    rows.append(rows[-1].clamp(max=8))
    rows.append(rows[-1] & 6)
    rows.append(rows[-1] | 1)
    rows.append(rows[-1] ^ 2)
    rows.append(torch.full((4,), 9))
    equal(old, torch.stack(rows))
    equal(x, torch.tensor([9, 9, 1, 1]))


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint32, torch.int64, torch.uint64])
def test_atomics_of_integers_at_offsets(dtype):
    """The same in the memory of a turned matrix, with masks."""

    @tl.kernel
    def changed(x, old):
        memory, at = x.get_raw_memory(), tl.arange(4, dtype=tl.int64)
        wanted, two = at < 3, tl.full((), 2, x.dtype)
        tl.store(old, (0, 0), memory.atomic_add_offset(at, 3, mask=wanted)[None, :])
        tl.store(old, (1, 0), memory.atomic_max_offset(at, two * 3)[None, :])
        tl.store(old, (2, 0), memory.atomic_min_offset(at, two * 4)[None, :])
        tl.store(old, (3, 0), memory.atomic_and_offset(at, two * 3)[None, :])
        tl.store(old, (4, 0), memory.atomic_or_offset(at, tl.ones((), x.dtype))[None, :])
        tl.store(old, (5, 0), memory.atomic_xor_offset(at, two, memory_order="relaxed")[None, :])
        tl.store(old, (6, 0), memory.atomic_xchg_offset(at, 9, mask=wanted)[None, :])
        tl.store(old, (7, 0), memory.atomic_cas_offset(at, 9, 1, mask=at != 1)[None, :])
        memory.atomic_add_offset(1, 5)

    x = torch.tensor([[0, 1], [2, 3]]).to(dtype)
    old = torch.zeros(8, 4).to(dtype)
    changed[1](x.t(), old)
    v = torch.arange(4)
    rows = [torch.where(v < 3, v, 0), torch.where(v < 3, v + 3, v)]
    rows.append(rows[-1].clamp(min=6))
    rows.append(rows[-1].clamp(max=8))
    rows.append(rows[-1] & 6)
    rows.append(rows[-1] | 1)
    rows.append(torch.where(v < 3, rows[-1] ^ 2, 0))
    rows.append(torch.where(v < 3, 9, (rows[-2] ^ 2)))
    equal(old, torch.stack(rows))
    equal(x, torch.tensor([[1, 14], [1, rows[-1][3].item()]]))


def test_floats_are_added_to_and_exchanged_at_offsets():
    @tl.kernel
    def changed(x, old):
        memory, at = x.get_raw_memory(), tl.arange(4, dtype=tl.uint8)
        memory.atomic_add_offset(at // 2, 1.5)
        tl.store(old, 0, memory.atomic_xchg_offset(at, -1, memory_scope="block", mask=at > 0))

    x, old = torch.arange(4.0), torch.ones(4)
    changed[1](x, old)
    assert x.tolist() == [3, -1, -1, -1] and old.tolist() == [0, 4, 2, 3]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_several_hits_of_one_element_all_count(dtype):
    @tl.kernel
    def add(x):
        tl.atomic_add(x, tl.arange(8, dtype=tl.int32) // 4, 1)

    x = torch.zeros(2).to(dtype)
    add[5](x)
    equal(x, torch.full((2,), 20.0))


def test_views_are_added_to():
    @tl.kernel
    def add(x, largest):
        x.tiled_view((4, 4)).atomic_store_add((0, 0), tl.ones((4, 1), tl.float32))
        largest.tiled_view((4,), traversal_steps=1).atomic_store_max(tl.bid(0), tl.bid(0))

    x, largest = torch.zeros(3, 5), torch.zeros(6, dtype=torch.int32)
    add[4](x, largest)
    equal(x[:, :4], torch.full((3, 4), 4.0))
    assert (x[:, 4] == 0).all() and largest.tolist() == [0, 1, 2, 3, 3, 3]


def test_a_release_is_seen_by_an_acquire():
    order, scope = tl.MemoryOrder, tl.MemoryScope

    @tl.kernel
    def handed_on(data, flag, out):
        if tl.bid(0) == 0:
            tl.store(data, 0, tl.arange(8, dtype=tl.int32))
            tl.store(flag, 0, 1, memory_order=order.RELEASE, memory_scope=scope.DEVICE)
        else:
            while tl.load(flag, 0, (), memory_order=order.ACQUIRE, memory_scope=scope.DEVICE) == 0:
                pass
            tl.store(out, 0, tl.load(data, 0, 8, memory_order=order.RELAXED, memory_scope=scope.DEVICE))

    data, flag, out = (torch.zeros(8, dtype=torch.int32), torch.zeros(1, dtype=torch.int32), torch.zeros(8, dtype=torch.int32))
    handed_on[2](data, flag, out)
    assert out.tolist() == list(range(8))


def test_advanced_indexing():
    @tl.kernel
    def rows(x, ids, out):
        r = tl.load(ids, 0, 4)
        t = tl.load_advanced_indexing(x, (r, tl.Slice(1, 4)), padding_mode=tl.PaddingMode.NEG_INF)
        tl.store_advanced_indexing(out, (tl.Slice(0, 4), r), t.transpose())

    x, ids, out = torch.randn(5, 4), torch.tensor([4, 0, 7, 2]), torch.zeros(4, 6)
    rows[1](x, ids, out)
    want = torch.zeros(4, 6)
    for r in (4, 0, 2):
        want[:3, r], want[3, r] = x[r, 1:], -math.inf
    equal(out, want)


def test_mixed_shapes_strides_and_dims():
    @tl.kernel
    def facts(x, out):
        tl.static_assert(x.ndim == 2 and x.dtype == tl.float32)
        a, b = x.shape
        s, t = x.strides
        for index in tl.static_iter(range(4)):
            tl.store(out, index, (a, b, s, t)[index])

    out = torch.zeros(4, dtype=torch.int32)
    facts[1](torch.randn(6, 10).t()[2:], out)
    assert out.tolist() == [8, 6, 1, 10]
