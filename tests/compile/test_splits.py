"""Long reductions that inductor splits for a GPU: parts of one length where there are any."""

import pytest
import tile_ops  # noqa: F401 registers the backend
import torch
from tile_ops._compile import compat, compiler
from torch._inductor import ir

compiler._install()


@pytest.fixture
def parts(monkeypatch):
    """A function of how many parts inductor wants, and of the length: how many there are."""

    def of(wanted, length, is_ours=True):
        monkeypatch.setattr(ir.Reduction, "num_splits", staticmethod(lambda *args, reduction_numel: ("inner", wanted)))
        compat.split_evenly(lambda: is_ours)
        return ir.Reduction.num_splits(reduction_numel=length)

    return of


@pytest.mark.parametrize(
    "wanted, length, made", [(3, 81920, 4), (4, 81920, 4), (1, 81920, 1), (7, 2 * 5 * 1009, 10), (6, 5 * 1009, 5)]
)
def test_parts_have_one_length(parts, wanted, length, made):
    assert parts(wanted, length) == ("inner", made)


def test_a_prime_length_and_others_graphs_stay(parts):
    assert parts(3, 10007) == ("inner", 3)
    assert parts(3, 81920, is_ours=False) == ("inner", 3)


def test_numbers_of_rows_are_summed_with_columns(device):
    """A number for each row lies along the sum, and the matrices across it."""

    def function(x, y, scale):
        return (x * (y * scale[:, None])).sum(0)

    x, y, scale = torch.randn(700, 96, device=device), torch.randn(700, 96, device=device), torch.randn(700, device=device)
    found = torch.compile(function, backend="tile", options={"fallback": "error"})(x, y, scale)
    torch.testing.assert_close(found, function(x.double(), y.double(), scale.double()).float(), rtol=1e-5, atol=1e-4)
