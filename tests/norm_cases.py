"""What the tests of the norms of rows share: shapes, and the default epsilon."""

import pytest
import torch

# Sizes, and how many of the last of them are normalised.
SHAPES = [
    ((1,), 1),
    ((7,), 1),
    ((0, 5), 1),
    ((5, 0), 1),
    ((2, 0, 3), 1),
    ((1, 1), 2),
    ((3, 63), 1),
    ((3, 64), 1),
    ((300, 65), 1),
    ((70, 513), 1),
    ((5, 4097), 1),
    pytest.param((3, 17000), 1, marks=pytest.mark.slow),
    pytest.param((2, 40000), 1, marks=pytest.mark.slow),
    pytest.param((2, 140000), 1, marks=pytest.mark.slow),
    ((2, 3, 5, 7), 1),
    ((2, 3, 5, 7), 2),
    ((2, 3, 5, 7), 4),
]


def epsilon(dtype):
    """Returns torch's eps for None: the epsilon of the dtype it computes in."""
    return torch.finfo(dtype if dtype == torch.float64 else torch.float32).eps
