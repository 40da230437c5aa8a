"""Arrays, slices and views that an if, a loop or a return chooses while the kernel runs: as Python has it, on the
emulator of a GPU, too."""

import dataclasses

import pytest
import tile_ops.language as tl
import torch
from python_examples import on_the_emulator


@tl.kernel
def expression(x, y, out, n: int):
    a = x if n > 0 else y
    tl.store(out, 0, tl.load(a, 0, 4) * a.shape[0])
    tl.store(x if n > 1 else out, 1, tl.full((4,), 7.0, tl.float32))


@tl.kernel
def statement(x, y, out, n: int):
    a = x
    if n > 0:
        a = y
        if n > 1:
            a = out
    tl.store(out, 1, tl.gather(a, tl.arange(4, dtype=tl.int32)))
    tl.atomic_add(a, 2, 100.0)


@tl.kernel
def slices(x, y, out, n: int):
    if n > 1:
        a, b = x.slice(0, n, 8), x.slice(0, 0, 4)
    else:
        start = n + 1
        a, b = y.slice(0, start, start + 3), x.slice(0, 2, 6)
    tl.store(out, 0, tl.load(a, 0, 4))
    tl.store(out, 4, a.shape[0].astype(tl.float32))
    tl.static_assert(b.shape[0] == 4)
    tl.store(b.slice(0, 1, 3), 0, 5.0)
    c = b.slice(0, 0, 2) if n > 0 else b.slice(0, 2, 4)
    tl.store(c, 1, 9.0)


@tl.kernel
def views(x, y, out, n: int):
    view = (x if n > 0 else y).tiled_view(2)
    other = x.tiled_view(2)
    if n > 1:
        other = out.tiled_view(2)
    for i in range(view.num_tiles(0)):
        other.store(i, view.load(i) + 1)
    other.atomic_store_add(0, 3.0)
    memory = x.get_raw_memory() if n == 1 else y.get_raw_memory()
    memory.store_offset(7, memory.load_offset(0) + 1)


@tl.kernel
def in_turns(x, y, out, n: int):
    a, b = x, y
    for i in range(n):
        tl.store(b, 0, tl.load(a, 0, 8) * 2)
        a, b = b, a
    tl.store(out, 0, tl.load(a, 0, 8))


@tl.kernel
def in_turns_of_three(x, y, out, n: int):
    a, b, c = x, y, out
    i = 0
    while i < 5:
        i += 1
        if i == n:
            continue
        a, b, c = b, c, a
        tl.store(c, i, tl.load(a, i, 1) + tl.load(b, 0, 1) + i)
        if i > n + 2:
            break
    tl.store(b, 7, 50.0)


@tl.kernel
def moving_slice(x, y, out, n: int):
    part = x
    for i in range(n + 2):
        for k in range(2):
            tl.store(out, i * 2 + k, tl.load(part, k, 1))
        part = y.slice(0, i, 8)
    tl.store(part, 0, 77.0)


def either(flag, a, b):
    if flag:
        return a
    return b.slice(0, 1, 8) if a.ndim > 1 else b


@tl.kernel
def returned(x, y, out, n: int):
    tl.store(out, 0, tl.load(either(n > 0, x, y), 0, 4))


@dataclasses.dataclass(frozen=True)
class Buffers:
    source: object
    target: object

    def turned(self):
        return Buffers(self.target, self.source)


@tl.kernel
def records(x, y, out, n: int):
    buffers = Buffers(x, y)
    pair = (x, 1)
    for i in range(n):
        tl.store(buffers.target, i, tl.load(buffers.source, 0, 1) + 1)
        buffers = buffers.turned()
    if n > 1:
        pair = (out, 2)
    tl.store(pair[0], 3, pair[1] * 1.0)


def first_over(x, y, limit):
    i = 0
    while True:
        if tl.load(x, i, ()) > limit:
            return x.slice(0, i, 8)
        if i > 5:
            return y.slice(0, i, i + 2)
        i += 1


@tl.kernel
def returned_from_while(x, y, out, n: int):
    found = first_over(x, y, n * 3.0)
    tl.store(out, 0, tl.load(found, 0, 4))
    tl.store(out, 4, tl.astype(found.shape[0], tl.float32))


@tl.kernel
def of_a_list(arrays, y, out, n: int):
    a = arrays[n % 2]
    if n > 1:
        a = y
    b = arrays[n % 2].slice(0, n, 6)
    tl.store(out, 0, tl.load(a, 0, 4))
    tl.store(out, 1, tl.load(b, 0, 4))
    arrays[n % 2].tiled_view(4).store(1, tl.full((4,), 3.0, tl.float32))


@tl.kernel
def matrices(x, y, out, n: int):
    a = x if n > 0 else y
    b = a.slice(1, n, 4).slice(0, 1, 4)
    t = tl.load(b, (0, 0), (4, 4), order="F")
    tl.store(out, (0, 0), tl.load(a, (0, 0), (4, 4)) @ t)


CASES = {
    each.__name__: each
    for each in (
        *(expression, statement, slices, views, in_turns, in_turns_of_three, moving_slice, returned, records),
        *(returned_from_while, of_a_list, matrices),
    )
}


def arguments(kernel, n):
    shape = (4, 4) if kernel is matrices else (8,)
    x, y, out = torch.arange(8.0), -torch.arange(8.0) - 1, torch.zeros(8)
    if kernel is matrices:
        x, y, out = torch.randn(4, 4), torch.randn(4, 4), torch.zeros(4, 4)
    assert x.shape == shape
    return [[x, x + 10] if kernel is of_a_list else x, y, out, n]


def tensors(given):
    return [part for each in given[:3] for part in (each if isinstance(each, list) else [each])]


def wanted(kernel, n):
    """Returns the result of running the function as Python."""
    given = arguments(kernel, n)
    if kernel is of_a_list:  # debug() has no lists whose index the kernel knows
        x, y = given[0], given[1]
        given[2][:4] = y[:4] if n > 1 else x[n % 2][:4]
        given[2][4:] = torch.cat([x[n % 2][n:6], torch.zeros(4)])[:4]
        x[n % 2][4:] = 3
    else:
        kernel.debug(1, *given)
    return tensors(given)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_as_python_has_it(name, n):
    torch.manual_seed(1)
    want = wanted(CASES[name], n)
    torch.manual_seed(1)
    given = arguments(CASES[name], n)
    CASES[name][1](*given)
    for got, each in zip(tensors(given), want):
        torch.testing.assert_close(got, each)


@pytest.mark.at_home
@pytest.mark.parametrize("name", [name for name in CASES if name != "of_a_list"])
def test_on_the_emulator(name):
    torch.manual_seed(1)
    want = wanted(CASES[name], 2)
    torch.manual_seed(1)
    given = arguments(CASES[name], 2)
    with on_the_emulator(archs=(90,)):
        CASES[name][1](*given)
    for got, each in zip(tensors(given), want):
        torch.testing.assert_close(got, each)


def test_a_choice_that_is_known_makes_no_branch():
    def body(x, y, out):
        a = x
        if tl.bid(0) > 0:
            a = x
        for i in range(3):
            a = x if i > 1 else a
        tl.store(out, 0, tl.load(a, 0, 4))

    text = tl.kernel(body).ir(torch.zeros(4), torch.zeros(4), torch.zeros(4))
    assert text.count("load") == 1


def test_versions_count_for_each_array_that_may_be_written():
    x, y, out = torch.zeros(8), torch.zeros(8), torch.zeros(8)
    in_turns[1](x, y, out, 1)
    assert [each._version for each in (x, y, out)] == [1, 1, 1]
