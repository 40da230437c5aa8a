"""Tests what launches refuse to write (read-only memory, arrays that overlap, expanded tensors), and what they accept
without a warning."""

import mmap
import warnings

import numpy
import pytest
import tile_ops.language as tl
import torch
from raised import error_of


@tl.kernel
def add_one(x, out, N: tl.Constant[int]):
    tl.store(out, 0, tl.load(x, 0, N) + 1)


@tl.kernel
def of_lists(arrays, i: int, N: tl.Constant[int]):
    tl.store(arrays[i], 0, tl.load(arrays[0], 0, N) + 1)


@tl.kernel
def counts(x, total, N: tl.Constant[int]):
    tl.atomic_add(total, 0, tl.sum(tl.load(x, 0, N)))


@tl.kernel
def unused(x, out, spare, keep: tl.Constant[bool], N: tl.Constant[int]):
    if keep:
        tl.store(spare, 0, tl.load(x, 0, N))
    tl.store(out, 0, tl.load(x, 0, N) + 1)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def where(kernel):
    return (
        f"ValueError: test_written_memory.py:{kernel._pyfunc.__code__.co_firstlineno}: launch of {kernel.__name__}: it writes "
    )


def both(kernel, *arguments):
    """Returns the error of a launch; debug must raise the same one."""
    text = error_of(kernel[1], *arguments)
    assert error_of(kernel.debug, 1, *arguments) == text
    return text


class Exported:
    """An array that other libraries see only through DLPack. old: True for an exporter without versions."""

    def __init__(self, array, old=False):
        self._array, self._old = array, old

    def __dlpack__(self, **named):
        if self._old and named:
            raise TypeError("an old exporter")
        return self._array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class Described:
    """An array that other libraries see only through __array_interface__."""

    def __init__(self, array):
        self.__array_interface__, self.shape, self._array = array.__array_interface__, array.shape, array


def mapped(tmp_path):
    path = tmp_path / "numbers"
    numpy.arange(16, dtype=numpy.float32).tofile(path)
    return numpy.memmap(path, numpy.float32, "r")


def frozen(array):
    array.flags.writeable = False
    return array


READ_ONLY = {
    "bytes": lambda path: numpy.frombuffer(numpy.arange(16, dtype=numpy.float32).tobytes(), numpy.float32),
    "memmap": mapped,
    "mmap": lambda path: numpy.frombuffer(mmap.mmap(-1, 64, access=mmap.ACCESS_READ), numpy.float32),
    "flag": lambda path: frozen(numpy.arange(16, dtype=numpy.float32)),
    "broadcast": lambda path: numpy.broadcast_to(numpy.float32(2), (16,)),
    "a view of one": lambda path: frozen(numpy.arange(40, dtype=numpy.float32))[3:35:2],
    "array interface": lambda path: Described(frozen(numpy.arange(16, dtype=numpy.float32))),
    "dlpack": lambda path: Exported(frozen(numpy.arange(16, dtype=numpy.float32))),
    "bool": lambda path: frozen(numpy.zeros(16, dtype=numpy.bool_)),
}


@pytest.mark.parametrize("what", READ_ONLY)
def test_read_only_memory(what, tmp_path):
    array = READ_ONLY[what](tmp_path)
    plain = numpy.array(getattr(array, "_array", array)).astype(numpy.float32)
    out = torch.zeros(16, device="cpu")
    add_one[1](array, out, 16)
    assert out.tolist() == (plain + 1).tolist()
    x = torch.ones(16, device="cpu")
    text = where(add_one) + "'out', which is read-only memory; pass an array that may be written, such as a copy of it"
    if what != "bool":
        assert both(add_one, x, array, 16) == text
    assert numpy.array_equal(numpy.array(getattr(array, "_array", array)), plain)
    assert both(of_lists, [x, array if what != "bool" else frozen(numpy.ones(16, numpy.float32))], 1, 16) == text.replace(
        "add_one: it writes 'out'", "of_lists: it writes 'arrays'"
    ).replace(where(add_one).split(" launch")[0], where(of_lists).split(" launch")[0])


def test_what_may_be_written_is():
    x = torch.ones(16, device="cpu")
    for made in (lambda array: array, Described, Exported, lambda array: Exported(array, old=True)):
        array = numpy.zeros(16, dtype=numpy.float32)
        add_one[1](x, made(array), 16)
        assert array.tolist() == [2.0] * 16
    old = Exported(frozen(numpy.zeros(16, dtype=numpy.float32)), old=True)
    assert error_of(add_one[1], old, x, 16) == (
        "TypeError: Invalid kernel argument #0, 'x' of add_one: its __dlpack__ says: Cannot export readonly array since signalling readonly is "
        "unsupported by DLPack (supported by newer DLPack version).; pass a copy of it"
    )


def test_arrays_that_overlap():
    memory = torch.arange(64.0)
    end = " in memory; pass a clone() of one of them"
    text = where(add_one) + "'out', which overlaps 'x'" + end
    for x, out in (
        (memory[:16], memory[:16]),
        (memory[:16], memory[15:31]),
        (memory[0:32:2], memory[2:34:2]),
        (memory[:32].view(16, 2)[:, 1], memory[1:17]),
        (memory.view(torch.int32)[:16], memory[:16]),
    ):
        assert both(add_one, x, out, 16) == text
    before = memory.clone()
    for x, out in ((memory[:16], memory[16:32]), (memory[0:32:2], memory[1:33:2]), (memory[:0], memory[:16])):
        add_one[1](x, out, 16)
    assert not torch.equal(memory, before)
    assert both(of_lists, [memory[:16], memory[:16]], 1, 16) == (
        where(of_lists) + "'arrays', which holds arrays that overlap" + end
    )
    array = numpy.zeros(16, dtype=numpy.float32)
    assert both(add_one, array, torch.from_numpy(array), 16) == where(add_one) + "'out', which overlaps 'x'" + end
    assert "'total', which overlaps 'x'" in both(counts, memory[:16], memory[3:4], 16)


def test_arrays_that_are_only_read_or_not_used_may_overlap():
    memory, out = torch.arange(16.0), torch.zeros(16)
    of_lists[1]([memory, out], 1, 16)
    unused[1](memory, out, out, False, 16)
    assert torch.equal(out, memory + 1)
    assert "'spare', which overlaps 'out'" in error_of(unused[1], memory, out, out, True, 16).replace(
        "'out', which overlaps 'spare'", "'spare', which overlaps 'out'"
    )


def test_tensors_whose_elements_overlap():
    x = torch.ones(4, 4)
    end = ", which has several elements at one address, as an expanded tensor does; pass a clone() of it"

    @tl.kernel
    def copy(x, out):
        tl.store(out, (0, 0), tl.load(x, (0, 0), (4, 4)))

    for out, strides in (
        (torch.zeros(4).expand(4, 4), "(0, 1)"),
        (torch.zeros(4, 1).expand(4, 4), "(1, 0)"),
        (torch.zeros(16).as_strided((4, 4), (2, 1)), "(2, 1)"),
        (torch.zeros(20).as_strided((4, 4), (3, 2)), "(3, 2)"),
    ):
        assert both(copy, x, out) == where(copy) + f"'out' of shape (4, 4) and strides {strides}" + end
    for out in (torch.zeros(4, 4).T, torch.zeros(4, 8)[:, ::2], torch.zeros(64).as_strided((4, 4), (2, 9)), torch.zeros(1, 4)):
        copy[1](x, out)
        assert out.sum() == out.numel()
    copy[1](torch.ones(1).expand(4, 4), out := torch.zeros(4, 4))
    assert out.sum() == 16


def test_versions_count_up():
    x = torch.ones(16)
    for out in (torch.zeros(16), torch.nn.Parameter(torch.zeros(16)), torch.zeros(32)[::2]):
        version = out._version
        add_one[1](x, out, 16)
        assert out._version == version + 1 and x._version == 0
    with torch.inference_mode():
        out = torch.zeros(16)
    add_one[1](x, out, 16)
    assert out.tolist() == [2.0] * 16
    weight = torch.nn.Parameter(torch.ones(16))
    loss = (weight * weight).sum()
    add_one[1](x, weight, 16)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_memory_that_was_freed():
    x, freed = torch.ones(16), torch.zeros(1000)
    part = freed[500:516]
    freed.untyped_storage().resize_(0)
    for tensor in (freed, part):
        text = error_of(add_one[1], tensor, x, 16)  # outside the assert, which would print the tensor
        assert text == (
            "ValueError: Invalid kernel argument #0, 'x' of add_one: the tensor has no memory: it was freed, as by "
            "untyped_storage().resize_(0), or the tensor wraps another one; pass one that has"
        )


def test_a_tuned_kernel_refuses_them_too():
    tuned = add_one.tune([{"N": 16}])
    x, array = torch.ones(16, device="cpu"), frozen(numpy.zeros(16, dtype=numpy.float32))
    assert error_of(tuned[1], x, array).startswith(where(add_one) + "'out', which is read-only memory")
    assert not array.any()
