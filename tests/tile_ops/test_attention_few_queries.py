"""Attention of few queries without gradients: biases, masks, positions, head dims and layouts, and equal bits in each run."""

import few_queries
import pytest
import tile_ops  # noqa: F401
import torch
from attention_reference import peer
from numerics import check_call
from opinfo import DTYPES

attention = torch.ops.tile.attention


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", few_queries.CALLS)
def test_calls(name, dtype):
    check_call(attention, peer, *few_queries.CALLS[name](dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(dtype):
    make = few_queries.strided(dtype)
    for queries in (1, 3):
        bias = torch.randn(1, 1, 1, 600).to(dtype)[..., ::2]
        check_call(attention, peer, (make(6, queries), make(2, 300), make(2, 300)), {"attn_bias": bias})


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_caches(dtype):
    """Blocks share so many keys that several partial results are put together at once."""
    for keys in (1999, 8192):
        make = few_queries.call(1, 8, 2, 1, keys=keys, attn_bias=few_queries.mask(1, 1, 1, keys))
        args, options = make(dtype)
        check_call(attention, peer, args, options)
        first, again = (attention(*args, **options) for _ in range(2))
        assert all(torch.equal(a, b) for a, b in zip(first, again))


def test_rows_that_see_nothing():
    args, _ = few_queries.CALLS["plain"](torch.float32)
    out, lse = attention(*args, attn_bias=torch.zeros(1, few_queries.KEYS, dtype=torch.bool))
    assert torch.equal(out, torch.zeros_like(out)) and torch.equal(lse, torch.full_like(lse, -torch.inf))


def test_hidden_keys_may_be_nan():
    """A hidden value times 0 is NaN, as it is for any number of queries."""
    (query, key, value), _ = few_queries.CALLS["plain"](torch.float32)
    seen = torch.arange(few_queries.KEYS) < 130
    expected = attention(query, key, value, attn_bias=seen[None])
    key[:, :, 130:] = torch.nan
    for one, other in zip(attention(query, key, value, attn_bias=seen[None]), expected):
        assert torch.equal(one, other)
