"""Tests the dtypes that atomic operations accept: bitwise ones the array's own, the rest any that casts implicitly."""

import pytest
import tile_ops.language as tl
import torch
from python_examples import on_the_emulator
from tile_ops.language.core import dtypes

WORDS = [tl.int32, tl.uint32, tl.int64, tl.uint64]
UPDATES = [tl.bool_, tl.int8, tl.int16, tl.uint8, *WORDS, tl.float32]
BITS = ("and", "or", "xor")
OTHERS = ("max", "min", "add", "xchg", "cas")


@tl.kernel
def elements(x, which: tl.Constant[str], dtype: tl.Constant):
    update = tl.full((4,), 1, dtype)
    index = tl.arange(4, dtype=tl.int32)
    if which == "cas":
        tl.atomic_cas(x, index, update, update)
    else:
        getattr(tl, tl.static_eval("atomic_" + which))(x, index, update)


@tl.kernel
def offsets(x, which: tl.Constant[str], dtype: tl.Constant):
    update = tl.full((4,), 1, dtype)
    index = tl.arange(4, dtype=tl.int32)
    function = getattr(x.get_raw_memory(), tl.static_eval(f"atomic_{which}_offset"))
    if which == "cas":
        function(index, update, update)
    else:
        function(index, update)


@tl.kernel
def views(x, which: tl.Constant[str], dtype: tl.Constant):
    getattr(x.tiled_view(4), tl.static_eval("atomic_store_" + which))(0, tl.full((4,), 1, dtype))


def converts(update, array):
    try:
        return dtypes.promote(update, array) is array
    except tl.TileTypeError:
        return False


def forms():
    for name in (*BITS, *OTHERS):
        yield from ((elements, name), (offsets, name))
        if name not in ("xchg", "cas"):
            yield views, name


@pytest.mark.parametrize("kernel, name", list(forms()), ids=lambda each: getattr(each, "__name__", each))
def test_updates(kernel, name):
    """Tests that each pair of update and array dtypes is accepted, or rejected with the exact message."""
    for array in WORDS:
        for update in UPDATES:
            x = torch.zeros(4, dtype=array.torch)
            if update is array if name in BITS else converts(update, array):
                kernel.check(x, name, update)
                continue
            with pytest.raises(tl.TileTypeError) as error:
                kernel.check(x, name, update)
            bits = (
                f"Bitwise atomic read-modify-write operations require the update dtype ({update}) to exactly match the "
                f"target dtype ({array}); convert with astype()"
            )
            other = f"cannot implicitly cast {update} to {array}; convert with astype()"
            assert error.value.message == (bits if name in BITS else other), (array, update)


@tl.kernel
def changed(x):
    view = x.tiled_view(4)
    view.atomic_store_or(0, tl.full((4,), 6, tl.int64))
    view.atomic_store_and(0, tl.arange(4, dtype=tl.int32).astype(tl.int64) + 2)
    view.atomic_store_xor(0, tl.full((), 2**40, tl.int64))
    view.atomic_store_max(1, tl.full((4,), 3, tl.int16))
    view.atomic_store_min(1, tl.full((4,), True, tl.bool_))


WANT = [each ^ 2**40 for each in ((8 | 6) & 2, (8 | 6) & 3, (8 | 6) & 4, (8 | 6) & 5)] + [1] * 4


def test_values():
    for run in (changed[1], lambda x: changed.debug(1, x)):
        x = torch.full((8,), 8, dtype=torch.int64)
        run(x)
        assert x.tolist() == WANT


@pytest.mark.at_home
def test_values_on_the_emulator():
    x = torch.full((8,), 8, dtype=torch.int64)
    with on_the_emulator(archs=(90,)):
        changed[1](x)
    assert x.tolist() == WANT


def test_a_literal_is_an_int32():
    @tl.kernel
    def kernel(x):
        x.tiled_view(4).atomic_store_or(0, 5)

    x = torch.zeros(4, dtype=torch.int32)
    kernel[1](x)
    assert x.tolist() == [5] * 4
    with pytest.raises(tl.TileTypeError, match=r"the update dtype \(int32\) to exactly match the target dtype \(int64\)"):
        kernel[1](x.long())
