"""The scans, combine regions and indices of extremes of test_scans.py on a GPU; rows that fill a cluster
there; sums of 16-bit floats in memory."""

import emulate
import on_device
import pytest
import torch
from emulate import same_on_both
from random_meaning import DTYPES
from test_scans import ALL, COMPOSE, launch
from test_scans import (  # noqa: F401
    test_both_axes_and_a_result_in_another_layout,
    test_four_tiles_at_once,
    test_scans_in_a_loop_with_a_scalar_of_the_kernel,
    test_order_is_kept_over_each_axis,
    test_indices_of_extremes,
    test_running_sums_in_every_dtype,
    test_sums_against_float64,
    test_sums_of_a_product,
)
from test_shapes import kernel


@pytest.fixture(autouse=True)
def _on_the_gpu(device, monkeypatch):
    def run(cases):
        for case in cases:
            on_device.run_ir(device, case.text, case.grid, case.arguments, case.passes)
        return [None] * len(cases)

    monkeypatch.setattr(emulate, "run", run)


@pytest.mark.parametrize("columns", [32768, 50000])
def test_rows_in_a_cluster(columns):
    scans = [launch("scan", (1, columns), 1, *COMPOSE, reverse=reverse) for reverse in (False, True)]
    same_on_both([launch("reduce", (1, columns), 1, *COMPOSE), *scans])


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_sums_of_16_bits_in_memory(dtype):
    """Many blocks at the same elements, in pairs and one by one; whole numbers that the dtype holds."""
    body = f"""%t: {dtype}[4,64] = load %a, %i, %z {{pad=0.0, shape=[4,64], steps=[4,64]}}
add_tile %b, %t, %z, %z {{steps=[4,64]}}
%n: i32[4,64] = load %d, %i, %z {{pad=0, shape=[4,64], steps=[4,64]}}
%q: {dtype}[4,64] = atomic_add %c, %t, %n"""
    x = torch.randint(0, 2, (400, 64)).to(ALL[dtype])
    at = torch.randint(0, 1001, (400, 64)).to(DTYPES["i32"])
    tile, sums = torch.zeros(4, 64, dtype=ALL[dtype]), torch.zeros(1001, dtype=ALL[dtype])
    text = kernel([(dtype, 2), (dtype, 2), (dtype, 1), ("i32", 2)], body)
    emulate.run([emulate.Case(text, (100, 1, 1), [x, tile, sums, at])])
    assert torch.equal(tile.double(), x.double().reshape(100, 4, 64).sum(0))
    expected = torch.zeros(1001, dtype=torch.float64)
    assert torch.equal(sums.double(), expected.index_add_(0, at.reshape(-1).long(), x.double().reshape(-1)))
