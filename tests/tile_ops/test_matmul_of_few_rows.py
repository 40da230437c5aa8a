"""tile::matmul of few rows on a CPU, where the right operand is read in place along its rows or its columns."""

import pytest
import tile_ops  # noqa: F401
import torch
from numerics import check
from threads import with_torch_threads

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
# Inner extents around a vector, a pair of bf16 and the 1024 that are summed at once; columns around vectors and tiles.
SIZES = [(1, 1), (16, 31), (17, 32), (33, 257), (1025, 40), (2050, 513)]


def weight(k, n, along_rows, dtype):
    """Returns a [k, n] matrix that is part of a larger one, with contiguous rows or columns."""
    shape = (k + 1, n + 3) if along_rows else (n + 3, k + 1)
    whole = torch.randn(shape).to(dtype)
    return whole[1:, 2:-1] if along_rows else whole[2:-1, 1:].t()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("along_rows", [True, False], ids=["rows", "columns"])
@pytest.mark.parametrize("k, n", SIZES)
def test_values(k, n, along_rows, dtype):
    y = weight(k, n, along_rows, dtype)
    for m in (1, 3, 8, 9):
        x = torch.randn(m, k).to(dtype)
        strided = torch.randn(k, m + 1).to(dtype)[:, 1:].t()
        for left in (x, strided):
            ours = torch.ops.tile.matmul(left, y)
            check(ours, left @ y, left.double() @ y.double())


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("along_rows", [True, False], ids=["rows", "columns"])
@pytest.mark.parametrize("k, n", [(300, 4100), (1025, 2065), (17, 1030), (2, 513)])
def test_threads_change_no_bit(k, n, along_rows, dtype):
    """Tiles are as wide as there is work for all threads."""
    y = weight(k, n, along_rows, dtype)
    for m in (1, 2, 5, 8):
        x = torch.randn(m, k).to(dtype)
        one, *others = with_torch_threads((1, 2, 3, 4, 16), lambda x=x: torch.ops.tile.matmul(x, y))
        for each in others:
            assert torch.equal(one, each), m


def test_infinities_and_nan_stay_in_their_columns():
    x = torch.randn(2, 40)
    for along_rows in (True, False):
        y = torch.randn(40, 20) if along_rows else torch.randn(20, 40).t()
        y[3, 4], y[5, 6] = float("inf"), float("nan")
        found = torch.ops.tile.matmul(x, y)
        assert torch.equal(found.isfinite(), (x @ y).isfinite())
        assert torch.equal(found.isnan(), (x @ y).isnan())
