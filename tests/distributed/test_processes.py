"""Tests tests/processes.py: a case that fails in one process, fails in all, or crashes one does not fail other cases."""

import os
import pathlib

import processes
import pytest
from processes import case

CASES = []
NAMES = ["good", "wrong_everywhere", "wrong_in_one", "good_again"]


def _rank():
    import torch.distributed as dist

    return dist.get_rank()


@case
def good(device):
    import torch
    import torch.distributed as dist

    ones = torch.ones((), device=device)
    dist.all_reduce(ones)
    assert ones == 2


@case
def wrong_everywhere(device):
    raise ValueError("as told")


@case
def wrong_in_one(device):
    if _rank() == 1:
        os._exit(3)
    good(device)


@case
def good_again(device):
    good(device)


@pytest.fixture(scope="module")
def results(request):
    return processes.run_cases(pathlib.Path(__file__), NAMES, 2, "cpu")


def test_each_case_has_its_own_end(results):
    assert [name for name in NAMES if not results[name]] == ["good", "good_again"]
    assert results["wrong_everywhere"].count("ValueError: as told") == 2
    assert "or a crash" in results["wrong_in_one"] or "RuntimeError" in results["wrong_in_one"]
