"""Each way of adding up what blocks share, for all kernels: launches of so few blocks take one alone."""

import pytest
import torch
from tile_ops._derive import launch

from derive import test_gradients
from derive.cases import CASES
from derive.test_gradients import memory_of_nans

__all__ = ["memory_of_nans"]  # a fixture


@pytest.mark.parametrize("name", CASES)
def test_few_blocks_that_compute_all(name, monkeypatch):
    monkeypatch.setattr(launch, "_blocks_at_once", lambda device: 1)
    test_gradients.test_gradients_equal_torchs(name, torch.float64)


@pytest.mark.parametrize("name", CASES)
def test_atomics_in_place_of_partial_sums(name, monkeypatch):
    monkeypatch.setattr(launch, "_SMALL", -(1 << 40))
    test_gradients.test_gradients_equal_torchs(name, torch.float64)
