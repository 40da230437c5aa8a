"""Tests Python kernels whose blocks wait for each other, also on the emulator of a GPU: by turns, a lock or tickets."""

import threading

import pytest
import tile_ops.language as tl
import torch
from python_examples import on_the_emulator
from threads import with_torch_threads

ACQUIRE, RELEASE, RELAXED = tl.MemoryOrder.ACQUIRE, tl.MemoryOrder.RELEASE, tl.MemoryOrder.RELAXED


@tl.kernel
def turns(out, x, sums, flag, N: tl.Constant[int]):
    b = tl.bid(0)
    p = tl.load(x, (b, 0), (1, N))
    tl.store(out, (b, 0), p)
    while tl.atomic_cas(flag, 0, b, b, memory_order=ACQUIRE) != b:
        pass
    tl.store(sums, (0, 0), p + tl.load(sums, (0, 0), (1, N)))
    tl.atomic_xchg(flag, 0, b + 1, memory_order=RELEASE)


@tl.kernel
def locked(out, x, sums, flag, N: tl.Constant[int]):
    b = tl.bid(0)
    p = tl.load(x, (b, 0), (1, N))
    tl.store(out, (b, 0), p)
    while tl.atomic_cas(flag, 0, 0, 1) != 0:
        pass
    tl.store(sums, (0, 0), tl.load(sums, (0, 0), (1, N)) + p)
    tl.atomic_xchg(flag, 0, 0)


@tl.kernel
def tickets(out, x, sums, flag, N: tl.Constant[int]):
    ticket = tl.atomic_add(flag, 0, 1, memory_order=RELAXED)
    p = tl.load(x, (ticket, 0), (1, N))
    tl.store(out, (ticket, 0), p)
    while tl.atomic_add(flag, 1, 0, memory_order=ACQUIRE) != ticket:
        pass
    before = tl.load(sums, (0, 0), (1, N))
    tl.store(sums, (0, 0), before + p)
    tl.atomic_add(flag, 1, 1, memory_order=RELEASE)


KERNELS = {each.__name__: each for each in (turns, locked, tickets)}


def arguments(blocks, size):
    return [torch.zeros(blocks, size), torch.ones(blocks, size), torch.zeros(1, size), torch.zeros(2, dtype=torch.int32)]


def check(given):
    assert given[2].unique().tolist() == [given[1].shape[0]]
    assert torch.equal(given[0], given[1])


@pytest.mark.parametrize("name", KERNELS)
def test_every_block_adds_once(name, long):
    def launches():
        for _ in range(200 if long else 5):
            given = arguments(64, 4096)
            KERNELS[name][(64,)](*given, 4096)
            check(given)

    with_torch_threads(range(1, 5), launches)


@pytest.mark.at_home
def test_every_block_adds_once_on_the_emulator():
    with on_the_emulator():
        for kernel in KERNELS.values():
            given = arguments(5, 64)
            kernel[(5,)](*given, 64)
            check(given)


@tl.kernel
def answers(out, x, shared, flag, N: tl.Constant[int]):
    p = tl.load(x, (0,), (N,))
    tl.store(out, (0,), p)
    old = tl.load(shared, (0,), (N,))
    tl.atomic_xchg(flag, 0, 1, memory_order=RELEASE)
    while tl.atomic_cas(flag, 0, 2, 2, memory_order=ACQUIRE) != 2:
        pass
    tl.store(shared, (0,), old + p)


@tl.kernel
def asks(out, x, shared, flag, N: tl.Constant[int]):
    p = tl.load(x, (0,), (N,))
    tl.store(out, (0,), p)
    tl.atomic_xchg(flag, 0, 1, memory_order=RELEASE)
    while tl.atomic_cas(flag, 0, 2, 2, memory_order=ACQUIRE) != 2:
        pass
    tl.store(shared, (0,), p + tl.load(shared, (0,), (N,)))


@pytest.mark.at_home
@pytest.mark.parametrize("kernel, left", [(answers, 8.0), (asks, 101.0)], ids=["before", "behind"])
def test_what_another_thread_writes_in_between(kernel, left):
    """Changes the array only once the kernel waits at its atomic operation: a read before it must return the old
    value and a read after it the new one, whatever the timing."""
    out, x, shared, flag = torch.zeros(1024), torch.ones(1024), torch.full((1024,), 7.0), torch.zeros(1, dtype=torch.int32)
    launch = threading.Thread(target=lambda: kernel[(1,)](out, x, shared, flag, 1024))
    launch.start()
    seen = flag.numpy()
    while seen[0] != 1 and launch.is_alive():
        pass
    shared.fill_(100.0)
    seen[0] = 2
    launch.join()
    assert shared.unique().tolist() == [left]
