"""Attention's gradients on a GPU: added up in memory in any order, and in a fixed one that repeats."""

import pytest
import tile_ops
import torch
from attention_reference import inputs, peer
from numerics import check_call

SHAPES = {
    "64": (1, 4, 4, 1000, 1100, 64),
    "128": (1, 4, 2, 1000, 1100, 128),
    "narrow": (2, 2, 1, 300, 260, 40),
    "80": (1, 4, 2, 1000, 1100, 80),
    "96": (1, 4, 4, 1000, 1100, 96),
    "176": (1, 4, 2, 500, 600, 176),
    "192": (1, 4, 4, 500, 600, 192),
}
DTYPES = (torch.bfloat16, torch.float16)


@pytest.fixture(autouse=True)
def _order(request):
    torch.use_deterministic_algorithms(request.node.callspec.params.get("fixed_order", False))
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("fixed_order", (False, True))
@pytest.mark.parametrize("is_causal", (False, True))
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients(shape, dtype, is_causal, fixed_order, device):
    torch.manual_seed(0)
    args = [x.detach().to(device).requires_grad_() for x in inputs(*SHAPES[shape], dtype=dtype)]
    with torch.device(device):
        check_call(torch.ops.tile.attention, peer, args, {"is_causal": is_causal})


@pytest.mark.parametrize("fixed_order", (True,))
@pytest.mark.parametrize("shape", SHAPES)
def test_a_fixed_order_repeats(shape, fixed_order, device):
    args = [x.detach().to(device).requires_grad_() for x in inputs(*SHAPES[shape], dtype=torch.bfloat16)]

    def once():
        out, _ = tile_ops.attention(*args, is_causal=True)
        return out, *torch.autograd.grad(out.sin().sum(), args)

    first = once()
    for _ in range(100):
        assert all(torch.equal(mine, other) for mine, other in zip(once(), first))
