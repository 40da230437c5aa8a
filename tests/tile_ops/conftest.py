"""Fixtures of the tests of operators."""

import pytest
import torch


@pytest.fixture
def make():
    """Returns a function that makes a random tensor."""

    def tensor(*shape, dtype=torch.float32, grad=True):
        return torch.randn(*shape).to(dtype).requires_grad_(grad)

    return tensor
