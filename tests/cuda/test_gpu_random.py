"""Random numbers on a GPU: bits and uniforms are the CPU's, normals within 4 units in the last place."""

import philox
import pytest
import torch
from prims.test_random import EVERY, NORMAL, SEED

each = pytest.mark.parametrize("kind, dtype", EVERY, ids=str)
SHAPES = [((1, 1), (1, 1)), ((37, 130), (16, 64)), ((300, 5), (64, 8)), ((257, 4099), (4, 1024))]
OPERATOR = torch.ops.tt.random


def compare(kind, device, *call):
    seed = torch.tensor([SEED])
    got, expected = OPERATOR(seed.to(device), *call).cpu(), OPERATOR(seed, *call)
    if kind == NORMAL:
        assert philox.ulps(got, expected).max().item() <= 4
    else:
        assert torch.equal(got, expected)


@each
@pytest.mark.parametrize("size, tile", SHAPES, ids=str)
@pytest.mark.parametrize("offset", [0, 1, 2**34 - 9, -5])
def test_equals_the_cpu(device, kind, dtype, size, tile, offset):
    compare(kind, device, size, kind, dtype, tile, offset, 7, True)


@each
def test_of_millions(device, kind, dtype):
    compare(kind, device, (4096, 4096), kind, dtype, (1, 4096), 2**33 - 77, 0, True)


@each
@pytest.mark.parametrize("columns", [1, 64, 1000, 4096])
def test_rows_of_one_offset(device, kind, dtype, columns):
    compare(kind, device, (1000, columns), kind, dtype, (4, columns), 3, -1, False)


@each
def test_repeats_and_captures(device, kind, dtype):
    seed = torch.tensor([SEED], device=device)
    call = seed, (100, 1000), kind, dtype, (4, 256)
    first = OPERATOR(*call)
    assert all(torch.equal(OPERATOR(*call), first) for _ in range(20))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = OPERATOR(*call)
    seed += 1  # which a replay reads
    graph.replay()
    assert torch.equal(captured, OPERATOR(*call)) and not torch.equal(captured, first)


def test_other_dtypes_of_one_draw(device):
    """Narrow uniforms are the wide ones, cut."""
    seed = torch.tensor([SEED], device=device)
    wide = OPERATOR(seed, (64, 1024), 1, torch.float32, (4, 1024)).double()
    for dtype in (torch.float16, torch.bfloat16):
        steps = 2 ** philox.DIGITS[dtype]
        narrow = OPERATOR(seed, (64, 1024), 1, dtype, (4, 1024)).double()
        assert torch.equal(narrow, torch.floor(wide * steps) / steps)
