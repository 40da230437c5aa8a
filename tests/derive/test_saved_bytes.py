"""Plans of what launches save: which launches the tag of a plan tells apart, and the keys by which plans are kept."""

import os
import subprocess
import sys

import pytest
import tile_ops.language as tl
import torch
from tile_ops import _C
from tile_ops._derive import saving
from tile_ops._derive.traced import traced

from derive.saved_products import silu_product_kernel


@tl.kernel
def scaled_product_kernel(x, w, out, scale: float, steps: int, N: tl.Constant[int]):
    total = tl.zeros((N, N), tl.float32)
    for k in range(steps):
        total = tl.mma(tl.load(x, (tl.bid(0), k), (N, N)), tl.load(w, (k, tl.bid(1)), (N, N)), total)
    t = total * scale
    tl.store(out, (tl.bid(0), tl.bid(1)), t * tl.sigmoid(t))


def product(m=64, n=64, k=64, blocks=32, grid=(2, 2, 1), dtype=torch.float32):
    """Returns a launch of silu_product_kernel: (kernel, grid, arguments)."""
    shapes = (m, k), (k, n), (n,), (m, n)
    return silu_product_kernel, grid, (*(torch.zeros(shape, dtype=dtype) for shape in shapes), blocks, blocks, 16)


def scaled(steps=4):
    return scaled_product_kernel, (2, 2, 1), (*(torch.zeros(64, 64) for _ in range(3)), 2.0, steps, 32)


def planned(*launches):
    """Returns the plan of launches; None is one that saves nothing."""
    plan = _C.SavedBytes()
    for each in launches:
        if each is None:
            plan.skip()
            continue
        kernel, grid, arguments = each
        leaves = tuple(value for value, _ in _C.passed_arguments(kernel, arguments))
        plan.add(traced(kernel, arguments).kernel, grid, leaves, True)
    return plan


def tag(*launches):
    return planned(*launches).allocated(torch.empty(0)).stride(0)


def test_tags_tell_launches_apart():
    tags = [
        tag(*launches)
        for launches in (
            (product(),),
            (product(), product()),
            (None, product()),
            (product(k=128),),
            (product(m=63),),
            (product(m=128),),
            (product(n=128),),
            (product(grid=(4, 1, 1)),),
            (product(blocks=16, grid=(4, 4, 1)),),
            (product(dtype=torch.float64),),
            (scaled(),),
            (scaled(steps=3),),
        )
    ]
    assert len({*tags}) == len(tags)
    assert all(0 < each < 1 << 62 for each in tags)


def test_launches_behind_the_last_that_saves():
    assert planned(product(), None) != planned(product())
    assert planned(product(), None) == planned(product(), None)
    assert planned(product()) != planned(product(), product())


def test_tags_of_equal_launches():
    assert tag(product()) == tag(product())
    moved = [torch.zeros(64 * 64 + 1)[1:].view(64, 64) for _ in range(3)]  # other facts of addresses
    kernel, grid, arguments = scaled()
    assert tag((kernel, grid, (*moved, *arguments[3:]))) == tag(scaled())


def test_tags_are_equal_in_all_processes():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from derive import test_saved_bytes as tests\n"
        "print(tests.tag(tests.product(), None, tests.scaled()))"
    )
    folder = __file__.rsplit("derive", 1)[0]
    shown = [
        subprocess.run(
            [sys.executable, "-c", code, folder],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert [int(each) for each in shown] == [tag(product(), None, scaled())] * 2


def test_memory_fits_the_plan_that_allocated_it():
    plan, like = planned(product()), torch.empty(0)
    memory = plan.allocated(like)
    assert plan.count == 64 * 64 * 4 and memory.shape == (1, plan.count) and memory.dtype == torch.uint8
    assert plan.fits(memory)
    assert not planned(product(k=128)).fits(memory)
    assert not plan.fits(torch.empty(1, plan.count, dtype=torch.uint8))
    assert not plan.fits(torch.empty_strided(memory.shape, memory.stride(), dtype=torch.int8))
    for other in (memory.view(-1), memory[:, 1:], torch.empty(0), torch.tensor(1)):
        assert not plan.fits(other)


def test_tiles_begin_at_multiples_of_256_bytes():
    small = product(m=1, n=1, blocks=1, grid=(1, 1, 1), k=512)
    assert planned(small).count == 256 and planned(small, small).count == 512


def test_a_launch_that_is_not_planned_is_not_made():
    def launched(plan, launch):
        kernel, grid, arguments = launch
        arguments[3].fill_(7)
        made = _C.SavedBytes().launch(kernel, grid, arguments, traced, plan, plan.allocated(torch.empty(0)))
        assert made != bool((arguments[3] == 7).all())
        return made

    assert launched(planned(product()), product())
    assert not launched(planned(product()), product(blocks=16, grid=(4, 4, 1)))
    assert not launched(planned(None, product()), product())
    assert not launched(planned(), product())


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: _C.SavedBytes().fits(1), "SavedBytes: takes a tensor"),
        (lambda: _C.SavedBytes().allocated(None), "SavedBytes: takes a tensor"),
        (lambda: _C.plan_key([]), "plan_key: takes a tuple"),
        (lambda: _C.own_memory([]), "own_memory: takes a tuple"),
        (lambda: _C.empty_gradients((), (), (), ()), "empty_gradients: takes two tuples and a mask"),
    ],
)
def test_wrong_arguments(call, text):
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value) == text


def test_keys_of_plans():
    key = saving._key
    x = torch.empty(4, 6)
    different = [
        (x,),
        (x.t(),),
        (x[:, ::2],),
        (x.double(),),
        (x, 1),
        (x, 2),
        (x, 1.0),
        (x, True),
        (x, None),
        (x, "a"),
        (x, 2**70),
    ]
    assert len({key(each) for each in different}) == len(different)
    assert key((x, 3)) == key((torch.empty(4, 6), 3))
    assert _C.plan_key((x, "a")) is None
