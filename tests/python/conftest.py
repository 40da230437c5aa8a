"""Fixtures of the tests of patched models."""

import pytest
import torch


@pytest.fixture
def no_tf32():
    """Keeps a GPU's convolutions in float32: tf32 would amplify differences in the last place."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # torch's test utilities freeze the plain setting
        yield
