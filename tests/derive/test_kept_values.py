"""Each way of keeping what loops carry, for all kernels: their numbers of iterations are too small for more than one."""

import re

import pytest
import tile_ops
import tile_ops.language as tl
import torch

from derive.cases import CASES
from derive.test_gradients import arguments_of, gradients_of, memory_of_nans
from derive.ways import ALL, OWNER, PARTIAL, PLACES, SEGMENTS, launched

__all__ = ["memory_of_nans"]  # a fixture
LOOP = re.compile(r"(= |^ +)(for|loop) ", re.MULTILINE)  # an op of Tile IR


@pytest.fixture(autouse=True)
def one_thread():
    """Atomic additions are in a fixed order."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


def gradients_by(monkeypatch, name, *way):
    """Returns the gradients if loops keep their values in a way, and true if a kernel has loops."""
    case = CASES[name]
    kernels = launched(monkeypatch, PARTIAL, -1, *way)
    gradients = gradients_of(case.operator, arguments_of(case, torch.float32 if case.float32 else torch.float64))[1]
    assert kernels
    return gradients, any(LOOP.search(kernel.text) for kernel in kernels)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_same_however_values_are_kept(name, monkeypatch):
    """Derived gradients are the same however loops keep their values. Launches of these sizes would always keep all, so the
    tests choose."""
    expected, loops = gradients_by(monkeypatch, name, ALL, 0)
    if not loops:
        return  # nothing is kept in any way
    for way in ((SEGMENTS, 0), (PLACES, 1), (PLACES, 2), (PLACES, 512)):
        for ours, reference in zip(gradients_by(monkeypatch, name, *way)[0], expected, strict=True):
            if way[0] == SEGMENTS and ours.is_cpu:
                assert torch.equal(ours, reference)
            # Fused loops, and a GPU's compiler, may round a product and a sum as one, so the last bit may differ.
            bound = (1e-14 if reference.dtype == torch.float64 else 2e-6) * reference.abs().max().clamp(min=1).item()
            torch.testing.assert_close(ours, reference, rtol=0, atol=bound, msg=lambda text: f"{way}: {text}")


@pytest.mark.parametrize("name, loops", [("average", True), ("until", True), ("swish", False), ("running_sum", False)])
def test_kernels_with_loops_are_found(name, loops, monkeypatch):
    """The test above compares the ways for these kernels alone."""
    assert gradients_by(monkeypatch, name, ALL, 0)[1] == loops


@tl.kernel
def state_and_sum_kernel(x, w, out, N: tl.Constant[int]):
    """A state that is kept, and a sum to which each iteration adds a tile that all blocks read."""
    row, state, total = tl.bid(0), tl.ones((1, N), tl.float32), tl.zeros((1, N), tl.float32)
    for k in range(tl.num_tiles(x, 1, (1, N))):
        state = tl.sin(state) * tl.load(x, (row, k), (1, N))
        total = total + tl.load(w, (0, k), (1, N)) * 0.5
    tl.store(out, (row, 0), state + total * total)


def test_transposed_kernels_are_worth_more_than_segments(monkeypatch):
    x, w, out = torch.randn(5, 44), torch.randn(1, 44), torch.empty(5, 4)
    derivative, grad = tile_ops.derive(state_and_sum_kernel), torch.randn(5, 4)
    report = derivative.report(x, w, out, 4)
    assert report["w"] == "summed over grid axis 0, or stored by a kernel that loops over grid axis 0"
    assert report["kept for each iteration"] == ["f32[1, 4]"]
    exact = [each.double().requires_grad_() for each in (x, w)]
    state = torch.ones(5, 4, dtype=torch.float64)
    for part in exact[0].split(4, 1):
        state = state.sin() * part
    total = 0.5 * exact[1].view(-1, 4).sum(0)
    expected = torch.autograd.grad(state + total * total, exact, grad.double())
    for way in ((PARTIAL, -1, ALL), (OWNER, -1, ALL), (PARTIAL, -1, SEGMENTS), (OWNER, -1, SEGMENTS)):
        launched(monkeypatch, *way)
        gradients = torch.full_like(x, torch.nan), torch.full_like(w, torch.nan)
        derivative[5](x, w, out, 4, grad, *gradients)
        for ours, reference in zip(gradients, expected):
            torch.testing.assert_close(ours.double(), reference, rtol=1e-5, atol=1e-5)
