"""Few rows on many threads are parted into smaller tiles: that changes no bit of what comes out."""

import operators
import pytest
import torch
from threads import with_torch_threads

CALLS = operators.rows_with("few_rows")
# A tile holds 256, 64, 32, 8 or 1 of these rows, or an eighth as many.
SHAPES = [(512, 128), (65, 1000), (64, 512), (32, 4096), (9, 30000), (3, 40, 2, 1024), (1030, 100), (40, 1024)]


def with_gradients(function, tensors):
    leaves = [t.detach().requires_grad_() for t in tensors]
    out = function(*leaves)
    out = list(out) if isinstance(out, tuple) else [out]
    incoming = [torch.ones_like(each).cumsum(-1).remainder(7) for each in out]
    return [*out, *torch.autograd.grad(out, leaves, incoming)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("name", CALLS)
def test_same_bits(name, shape, dtype):
    x, w, b = (torch.randn(s).to(dtype) for s in (shape, shape[-1:], shape[-1:]))
    alone, together = with_torch_threads((1, 16), lambda: with_gradients(*CALLS[name](x, w, b)))
    for ours, expected in zip(together, alone, strict=True):
        assert torch.equal(ours, expected)
