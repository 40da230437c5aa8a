"""Each way of keeping what loops carry, for all kernels: their numbers of iterations are too small for more than one."""

import pytest
import torch
from tile_ops._derive.traced import Traced

from derive.cases import CASES
from derive.test_gradients import arguments_of, gradients_of, memory_of_nans
from derive.test_random_programs import PARTIAL

__all__ = ["memory_of_nans"]  # a fixture
ALL, SEGMENTS, PLACES = 0, 1, 2  # numbers of C++'s Keeping
launch = Traced.launch


def gradients_of_ways(name, monkeypatch, *ways):
    """Returns the gradients for each (keeping, places)."""
    case = CASES[name]
    arguments, all = arguments_of(case, torch.float32 if case.float32 else torch.float64), []
    for way in ways:
        monkeypatch.setattr(Traced, "launch", lambda *given, way=way: launch(*given, (PARTIAL, -1, *way)))
        all.append(gradients_of(case.operator, arguments)[1])
    return all


@pytest.fixture(autouse=True)
def one_thread():
    """Atomic additions are in a fixed order."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


@pytest.mark.parametrize("name", CASES)
def test_segments_that_are_computed_again_give_the_same_bits(name, monkeypatch):
    for reference, ours in zip(*gradients_of_ways(name, monkeypatch, (ALL, 0), (SEGMENTS, 0)), strict=True):
        assert torch.equal(ours, reference)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("places", [1, 2, 512])
def test_any_number_of_places_is_enough(name, places, monkeypatch):
    """Fused loops may round a product and a sum as one; so the last bit may differ."""
    for reference, ours in zip(*gradients_of_ways(name, monkeypatch, (ALL, 0), (PLACES, places)), strict=True):
        wide = reference.dtype == torch.float64
        torch.testing.assert_close(
            ours, reference, rtol=0, atol=(1e-14 if wide else 2e-6) * reference.abs().max().clamp(min=1).item()
        )
