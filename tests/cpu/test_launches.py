"""Tests that a kernel keeps no elements from launch to launch, and nothing that another shape makes stale."""

import pytest
import tile_ops  # noqa: F401
import torch
import torch.nn.functional as F
from threads import in_threads, with_torch_threads

ops = torch.ops.tile


def norms(x, weight):
    return ops.rms_norm(x, list(weight.shape), weight, 1e-5), F.rms_norm(x.double(), weight.shape, weight.double(), 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("columns", [128, 100])
def test_elements_that_change_in_place_are_seen(dtype, columns):
    # A weight of 16 bits is converted once for all rows of a launch.
    x, weight = torch.empty(8, columns, dtype=dtype), torch.empty(columns, dtype=dtype)
    for _ in range(6):
        x.normal_()
        weight.normal_()
        ours, reference = norms(x, weight)
        torch.testing.assert_close(ours.double(), reference, rtol=2e-2, atol=2e-2)


def test_shapes_take_turns():
    shapes = [(8, 128), (3, 100), (40, 128), (8, 128), (1, 7), (3, 100), (8, 4096), (8, 128), (5, 129)] * 3
    for rows, columns in shapes:
        x, weight = torch.randn(rows, columns), torch.randn(columns)
        ours, reference = norms(x, weight)
        torch.testing.assert_close(ours.double(), reference, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(ops.softmax(x, 0), x.softmax(0))
        torch.testing.assert_close(ops.softmax(x.t(), 0), x.t().softmax(0))


def test_many_kernels_take_turns():
    x = torch.randn(6, 64)
    weight, bias = torch.randn(2, 64)
    for _ in range(3):
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            y, w, b = x.to(dtype), weight.to(dtype), bias.to(dtype)
            for ours, theirs in (
                (ops.softmax(y, -1), y.softmax(-1)),
                (ops.log_softmax(y, -1), y.log_softmax(-1)),
                (ops.layer_norm(y, [64], w, b), F.layer_norm(y, [64], w, b)),
                (ops.layer_norm(y, [64]), F.layer_norm(y, [64])),
                (ops.rms_norm(y, [64], w, 1e-5), F.rms_norm(y, [64], w, 1e-5)),
                (ops.swiglu(y, y), F.silu(y) * y),
            ):
                torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)


def test_threads_that_come_and_go():
    x = torch.randn(4, 8, 128)
    found = {}

    def run(i):
        for _ in range(4):
            found[i] = ops.softmax(x[i], -1)

    for _ in range(3):
        in_threads(run, [(i,) for i in range(4)])
        for i in range(4):
            torch.testing.assert_close(found[i], x[i].softmax(-1))


def test_launches_of_many_threads_at_once():
    # Each worker of a launch takes what it kept; another launch at the same time finds the place empty.
    x = torch.randn(4, 96, 1024)

    def run(i):
        for result in with_torch_threads((1, 3, 2) * 4, lambda: ops.softmax(x[i], -1)):
            torch.testing.assert_close(result, x[i].softmax(-1))

    # Around them all: a thread may begin with the count another has set.
    with_torch_threads((torch.get_num_threads(),), lambda: in_threads(run, [(i,) for i in range(4)]))
