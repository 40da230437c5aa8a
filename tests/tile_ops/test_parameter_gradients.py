"""Gradients of weight and bias where the input wants none and its normalised axes are no single one: it is only
read."""

import pytest
import torch
import torch.nn.functional as F
from tile_ops import functional  # noqa: F401  registers the operators

ops = torch.ops.tile
CASES = {
    "layer_norm": (lambda x, w, b: ops.layer_norm(x, (6, 7), w, b), lambda x, w, b: F.layer_norm(x, (6, 7), w, b), (6, 7)),
    "rms_norm": (lambda x, w, b: ops.rms_norm(x, (6, 7), w), lambda x, w, b: F.rms_norm(x, (6, 7), w), (6, 7)),
    "add_rms_norm": (
        lambda x, w, b: ops.add_rms_norm(x, x, (6, 7), w)[0],
        lambda x, w, b: F.rms_norm(x + x, (6, 7), w),
        (6, 7),
    ),
    "group_norm": (
        lambda x, w, b: ops.group_norm(x, 2, w, b, activation="silu"),
        lambda x, w, b: F.silu(F.group_norm(x, 2, w, b)),
        (4,),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_input_is_only_read(name):
    ours, theirs, size = CASES[name]
    x = torch.randn(3, 4, 6, 10, dtype=torch.float64)[..., :7]
    kept = x.clone()
    weight, bias = (torch.randn(size, dtype=torch.float64).requires_grad_() for _ in range(2))
    wanted = [weight] if name.endswith("rms_norm") else [weight, bias]
    grad = torch.randn(x.shape, dtype=torch.float64)
    got = torch.autograd.grad(ours(x, weight, bias), wanted, grad)
    assert torch.equal(x, kept)
    for mine, reference in zip(got, torch.autograd.grad(theirs(x, weight, bias), wanted, grad)):
        torch.testing.assert_close(mine, reference, rtol=1e-10, atol=1e-10)
