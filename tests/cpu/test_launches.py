"""What a kernel keeps from launch to launch: never elements, and nothing that another shape makes stale."""

import threading

import pytest
import tile_ops  # noqa: F401
import torch
import torch.nn.functional as F

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
        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i in range(4):
            torch.testing.assert_close(found[i], x[i].softmax(-1))


def test_launches_of_many_threads_at_once():
    # Each worker of a launch takes what it kept; another launch at the same time finds the place empty.
    x = torch.randn(4, 96, 1024)
    found, threads = {}, torch.get_num_threads()

    def run(i):
        for count in (1, 3, 2) * 4:
            torch.set_num_threads(count)
            found[i] = ops.softmax(x[i], -1)

    callers = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    torch.set_num_threads(threads)
    for i in range(4):
        torch.testing.assert_close(found[i], x[i].softmax(-1))
