"""Each way of adding up what blocks share, for all kernels: launches of so few blocks take one alone."""

import pytest
import torch
from tile_ops._derive.traced import Traced

from derive import test_gradients
from derive.cases import CASES
from derive.test_gradients import memory_of_nans
from derive.ways import ATOMIC, PARTIAL, launch, launched

__all__ = ["memory_of_nans"]  # a fixture


@pytest.mark.parametrize("name", CASES)
def test_few_blocks_that_compute_all(name, monkeypatch):
    """Where no block may compute several, a folded kernel is refused; those run as they are."""

    def folded(*given):
        try:
            return launch(*given, (PARTIAL, 0))
        except NotImplementedError:
            return launch(*given)

    monkeypatch.setattr(Traced, "launch", folded)
    test_gradients.test_gradients_equal_torchs(name, torch.float64)


@pytest.mark.parametrize("name", CASES)
def test_atomics_in_place_of_partial_sums(name, monkeypatch):
    launched(monkeypatch, ATOMIC, -1)
    test_gradients.test_gradients_equal_torchs(name, torch.float64)
