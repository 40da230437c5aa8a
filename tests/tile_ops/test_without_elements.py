"""Compares operators whose sums have no terms, or whose tensors have no elements, with torch: values and gradients."""

import math

import operators
import pytest
import torch
from numerics import check_call
from operators.tensors import integers

tile = torch.ops.tile


CASES = operators.calls("without_elements")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_as_torch(name, dtype):
    ours, theirs, shapes = CASES[name]
    check_call(ours, theirs, [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes], what=name)


@pytest.mark.parametrize("paged", [False, True])
def test_attention_decode(paged):
    q, k, v = torch.randn(2, 4, 1, 0), torch.randn(2, 2, 32, 0), torch.randn(2, 2, 32, 3)
    table = torch.arange(4).view(2, 2) if paged else None
    pages = [x.unflatten(2, (2, 16)).transpose(1, 2).flatten(0, 1).contiguous() if paged else x for x in (k, v)]
    out, lse = tile.attention_decode(q, *pages, integers(20, 3), block_table=table)
    for i, length in enumerate((20, 3)):
        mean = v[i, :, :length].mean(1, keepdim=True).repeat_interleave(2, 0)
        torch.testing.assert_close(out[i], mean)
        torch.testing.assert_close(lse[i], torch.full((4, 1), math.log(length)))


def test_options_of_attention_without_a_head_dim():
    """Tests an explicit scale, and scores that differ only by an ALiBi bias."""
    q, k, v = torch.randn(1, 2, 5, 0), torch.randn(1, 2, 5, 0), torch.randn(1, 2, 5, 3)
    out, _ = tile.attention(q, k, v, scale=3.0)
    torch.testing.assert_close(out, v.mean(2, keepdim=True).expand_as(out))
    distance = (torch.arange(5).unsqueeze(1) - torch.arange(5)).abs()
    out, _ = tile.attention(q, k, v, alibi_slopes=torch.tensor([0.5, 0.25]), softcap=2.0)
    scores = -distance * torch.tensor([0.5, 0.25]).view(1, 2, 1, 1)
    torch.testing.assert_close(out, scores.softmax(-1) @ v)
