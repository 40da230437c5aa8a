"""Compiled reductions of rows that are longer than a tile, in whole tiles and with a rest."""

import pytest
import torch
from compiled_calls import compiled

REDUCTIONS = {
    "sum": lambda x: x.sum(1),
    "largest": lambda x: x.amax(1),
    "variance": lambda x: x.var(1),
    "variance of large numbers": lambda x: (x + 1000).var(1),
    "normalised rows": lambda x: (x - x.mean(1, keepdim=True)) * x.var(1, keepdim=True, correction=0).rsqrt(),
    "softmax": lambda x: x.softmax(1),
    "group norm": lambda x: torch.nn.functional.group_norm(x.view(1, -1, 2, x.shape[1] // 2), len(x)),
}


@pytest.mark.parametrize("columns", [16384, 20002, 32768, 65536])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_of_long_rows_agrees_with_float64(name, columns, device):
    x = torch.randn(5, columns, device=device)
    result = compiled(REDUCTIONS[name])(x)
    exact = REDUCTIONS[name](x.double())
    if name == "variance of large numbers":  # a mean of 1000 leaves this much of float32
        exact = REDUCTIONS[name]((x + 1000).double() - 1000)
    torch.testing.assert_close(result.double(), exact, rtol=2e-6, atol=2e-5 * exact.abs().max().item())
