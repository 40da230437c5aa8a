"""Compiled reductions of rows and columns that are longer than a tile, in whole tiles and with a rest."""

import pytest
import torch
from combinations import by_turns
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


@pytest.mark.parametrize("name, columns", by_turns(REDUCTIONS.keys(), [16384, 20002, 32768, 65536], kept=2))
def test_a_reduction_of_long_rows_agrees_with_float64(name, columns, device):
    x = torch.randn(5, columns, device=device)
    result = compiled(REDUCTIONS[name])(x)
    exact = REDUCTIONS[name](x.double())
    if name == "variance of large numbers":  # a mean of 1000 leaves this much of float32
        exact = REDUCTIONS[name]((x + 1000).double() - 1000)
    torch.testing.assert_close(result.double(), exact, rtol=2e-6, atol=2e-5 * exact.abs().max().item())


SHAPES = {
    "columns in even parts": ((4096, 1000), 0),
    "columns with a rest": ((1031, 1025), 0),
    "few columns": ((3001, 3), 0),
    "the middle of several matrices": ((37, 70, 65), 1),
    "short columns of several matrices": ((37, 33, 65), 1),
    "two axes": ((37, 33, 65), (0, 2)),
    "all elements": ((530_001,), 0),
}
ALONG = {
    "sum": lambda x, axes: x.sum(axes),
    "largest": lambda x, axes: x.amax(axes),
    "sum of a constant and of products": lambda x, axes: (2 * x * x + 1).sum(axes),
    "variance and mean": lambda x, axes: torch.var_mean(x, axes),
    "transposed": lambda x, axes: x.transpose(0, -1).contiguous() + x.amax(axes, keepdim=True).transpose(0, -1),
}


@pytest.mark.parametrize("name, shape", by_turns(ALONG.keys(), SHAPES.keys(), kept=3))
def test_reductions_along_other_axes_agree_with_float64(name, shape, device):
    (sizes, axes), function = SHAPES[shape], ALONG[name]
    x = torch.randn(sizes, device=device)
    results, exact = compiled(function)(x, axes), function(x.double(), axes)
    for one, other in zip(results, exact) if isinstance(exact, tuple) else [(results, exact)]:
        torch.testing.assert_close(one.double(), other, rtol=2e-6, atol=2e-5 * other.abs().max().item())


@pytest.mark.parametrize("sizes", [(1031, 65), (70, 33, 9), (40_001, 3)])
def test_positions_along_columns(sizes, device):
    axis = len(sizes) - 2
    run = compiled(lambda x: (x.argmax(axis), x.argmin(axis)))
    few = torch.randint(0, 3, sizes, device=device).float()
    for x in (few, torch.where(torch.rand_like(few) < 0.001, float("nan"), few), torch.full_like(few, float("-inf"))):
        for ours, theirs in zip(run(x), (x.argmax(axis), x.argmin(axis))):
            assert torch.equal(ours, theirs)
