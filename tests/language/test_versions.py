"""A launch counts up the version of each tensor that the kernel writes to, so that autograd sees a saved one change."""

import dataclasses

import numpy
import pytest
import tile_ops.language as tl
import torch


@dataclasses.dataclass(frozen=True)
class Pair:
    read: object
    written: object


@tl.kernel
def plain(x, y, out):
    tl.store(out, 0, tl.load(x, 0, 4) + tl.load(y, 0, 4))


@tl.kernel
def through_views(x, a, b, c, d):
    tl.store(a.slice(0, 1, 3), 0, tl.load(x, 0, 2))
    b.tiled_view(4).store(0, tl.load(x, 0, 4))
    c.get_raw_memory().store_offset(0, 1.0)
    tl.atomic_add(d, 0, 1.0)


@tl.kernel
def in_regions(x, a, b, n: int):
    for i in range(n):
        if i > 1:
            tl.scatter(a, i, tl.gather(x, i))
    if tl.static_eval(False):
        tl.store(b, 0, 1.0)


@tl.kernel
def structured(arrays, pair, two):
    tl.store(arrays[1], 0, tl.load(arrays[0], 0, 4))
    tl.store(pair.written, 0, tl.load(pair.read, 0, 4))
    tl.store(two[1], 0, tl.load(two[0], 0, 4))


@tl.kernel
def constants_between(n: tl.Constant[int], x, s: float, out):
    tl.store(out, 0, tl.load(x, 0, n) * s)


def versions(*tensors):
    return [tensor._version for tensor in tensors]


def made(count):
    return [torch.zeros(4) for _ in range(count)]


def test_written_arguments_count():
    x, y, out = made(3)
    for launches in (1, 2):
        plain[1](x, y, out)
        assert versions(x, y, out) == [0, 0, launches]
    x, a, b, c, d = made(5)
    through_views[1](x, a, b, c, d)
    assert versions(x, a, b, c, d) == [0, 1, 1, 1, 1]
    x, a, b = made(3)
    in_regions[1](x, a, b, 3)
    assert versions(x, a, b) == [0, 1, 0]
    x, out = made(2)
    constants_between[1](4, x, 2.0, out)
    assert versions(x, out) == [0, 1]


def test_arrays_in_lists_tuples_and_dataclasses():
    tensors = made(6)
    structured[1](tensors[:2], Pair(*tensors[2:4]), tuple(tensors[4:]))
    assert versions(*tensors) == [0, 1] * 3


def test_autograd_sees_that_a_saved_tensor_was_overwritten():
    x, y = torch.randn(4, requires_grad=True), torch.randn(4)
    product = x * y
    plain[1](torch.ones(4), torch.ones(4), y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    product = x * y
    plain[1](y, y, torch.zeros(4))
    product.sum().backward()
    torch.testing.assert_close(x.grad, y)


def test_views_share_the_count():
    x, base = torch.zeros(4), torch.zeros(8)
    plain[1](x, x, base[4:])
    plain[1](x, x, base.detach()[:4])
    assert base._version == 2
    memory, x = numpy.zeros(4, dtype=numpy.float32), x.cpu()
    plain[1](x, x + 1, memory)
    assert memory.tolist() == [1] * 4 and x._version == 0
    with torch.device("meta"):  # a default device does not move arrays of NumPy
        plain[1](x, x, memory)
    assert memory.tolist() == [0] * 4


def test_tensors_of_inference_mode_have_no_count():
    with torch.inference_mode():
        x, out = torch.ones(4), torch.zeros(4)
        plain[1](x, x, out)
    ordinary = torch.zeros(4)
    plain[1](x, x, out)
    plain[1](x, x, ordinary)
    with torch.inference_mode():
        plain[1](x, x, ordinary)
    assert out.tolist() == [2] * 4 and ordinary._version == 2


def test_debugged_and_tuned_launches_count():
    x, y, out = made(3)
    plain.debug(1, x, y, out)
    assert versions(x, y) == [0, 0] and out._version > 0
    tuned = constants_between.tune([{"n": 2}, {"n": 4}])
    x, out = made(2)
    tuned[1](x, 2.0, out)
    assert versions(x, out) == [0, 1]


def test_the_kernels_text_alone_counts_nothing():
    x, y, out = made(3)
    plain.check(x, y, out)
    plain.ir(x, y, out)
    assert versions(x, y, out) == [0, 0, 0]
