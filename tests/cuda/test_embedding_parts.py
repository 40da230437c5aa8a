"""The gradient of a large table whose rows are named very often, as kernels for a GPU compute it, in the emulator."""

import pytest
import torch
import torch.nn.functional as F
from combinations import long
from emulate_operators import Emulation
from numerics import check_call

embedding = torch.ops.tile.embedding
PARTS = "kernel_embedding_parts_of_bins"


def theirs(weight, indices, padding_idx=-1):
    return F.embedding(indices, weight, None if padding_idx < 0 else padding_idx)


def often(rows, named, count, share):
    """Returns indices, a share of which are one of `named`."""
    draw = torch.randint(0, rows, (count,))
    pick = torch.tensor(named)[torch.randint(0, len(named), (count,))]
    return torch.where(torch.rand(count) < share, pick, draw)


CASES = [
    (3000, [0], 1500, 0.5),
    (3000, [7, 2999, 1501], 2100, 0.9),
    (9000, [8500], 1024, 1.0),
    (1500, [3, 4], 700, 0.8),
    (40, [11], 1300, 0.6),
]


@pytest.mark.parametrize("dtype", [torch.float32, long(torch.bfloat16), long(torch.float64)], ids=str)
@pytest.mark.parametrize("rows, named, count, share", CASES[:2] + [long(*each) for each in CASES[2:]])
def test_rows_that_are_named_often(rows, named, count, share, dtype):
    emulation = Emulation()
    weight = torch.randn(rows, 5).to(dtype).requires_grad_()
    check_call(emulation.operator(embedding), theirs, (weight, often(rows, named, count, share)))
    assert PARTS in {program["entry"] for program in emulation.programs}


def test_padding_among_them():
    """Padding leaves gaps between the entries of bins."""
    weight = torch.randn(3000, 5, requires_grad=True)
    indices = often(3000, [9, 1200, 1201, 2800], 2000, 0.95)
    for padding in (9, 1200):
        check_call(Emulation().operator(embedding), theirs, (weight, indices, padding))


def test_few_indices_have_no_parts():
    emulation = Emulation()
    weight = torch.randn(3000, 5, requires_grad=True)
    check_call(emulation.operator(embedding), theirs, (weight, often(3000, [5], 400, 0.5)))
    assert PARTS not in {program["entry"] for program in emulation.programs}


def test_one_order_of_sums():
    weight, indices = torch.randn(2000, 5, requires_grad=True), often(2000, [5, 1999], 1200, 0.9)
    incoming = torch.randn(1200, 5)
    first, second = (
        torch.autograd.grad(Emulation().operator(embedding)(weight, indices), weight, incoming)[0] for _ in range(2)
    )
    assert torch.equal(first, second)
