"""Tests of compiled graphs compile them: no cache answers for the compiler."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def exact_convolutions(pytestconfig):
    """On a GPU torch else rounds the operands of float32 convolutions to tf32."""
    import torch

    if pytestconfig.getoption("device") == "cpu":
        yield
    else:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            yield


@pytest.fixture
def uncached():
    import torch._functorch.config
    import torch._inductor.config

    with torch._inductor.config.patch(fx_graph_cache=False), torch._functorch.config.patch(enable_autograd_cache=False):
        yield
