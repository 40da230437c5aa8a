"""Attention of few queries, whose rows a CPU computes for several key heads at once: options, biases, layouts, bits."""

import pytest
import tile_ops  # noqa: F401
import torch
from attention_reference import inputs, peer
from numerics import check_call
from opinfo import DTYPES
from packed_samples import starts
from threads import with_torch_threads

pytestmark = pytest.mark.usefixtures("deterministic")

attention = torch.ops.tile.attention
# Batch, heads, key heads and queries; one row more than the CPU joins, too.
SHAPES = [(2, 8, 8, 1), (1, 6, 2, 1), (2, 7, 7, 3), (1, 6, 6, 7), (2, 4, 2, 4), (1, 9, 1, 1), (1, 3, 3, 8)]


def options_of(heads, dtype):
    sinks = torch.randn(heads).to(dtype).requires_grad_()
    return (
        {"is_causal": True, "causal_align": "top_left"},
        {"window": (50, 2)},
        {"softcap": 2.0, "is_causal": True},
        {"alibi_slopes": torch.rand(heads), "window": (-1, 3)},
        {"sinks": sinks, "scale": -0.3},
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch, heads, key_heads, rows", SHAPES)
def test_options(batch, heads, key_heads, rows, dtype):
    for keys, depth in ((159, 64), (129, 40), (31, 8)):
        for options in options_of(heads, dtype):
            if batch > 1 and "alibi_slopes" in options:
                options["alibi_slopes"] = torch.rand(batch, heads)
            args = inputs(batch, heads, key_heads, rows, keys, depth, dtype=dtype)
            check_call(attention, peer, args, options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch, heads, key_heads, rows", SHAPES)
def test_biases(batch, heads, key_heads, rows, dtype):
    """Of each head and of all, of each query and of all, of each sample and of all."""
    keys = 150
    for shape in (
        (batch, heads, rows, keys),
        (batch, 1, rows, keys),
        (heads, 1, keys),
        (batch, 1, 1, keys),
        (rows, keys),
        (heads, rows, 1),
    ):
        bias = torch.randn(shape).to(dtype)
        mask = torch.rand(shape) < 0.7
        for each in (bias, mask):
            args = inputs(batch, heads, key_heads, rows, keys, 24, dtype=dtype)
            check_call(attention, peer, args, {"attn_bias": each, "is_causal": shape[-1] == 1})


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(dtype):
    """Heads behind queries, strides of parts of a tensor, and a bias of transposed memory."""
    for heads, key_heads, rows in ((6, 3, 2), (6, 3, 1), (4, 4, 5)):
        q, k, v = (
            torch.randn(2, length, count, 70).to(dtype)[..., 3:67].transpose(1, 2).requires_grad_()
            for count, length in ((heads, rows), (key_heads, 140), (key_heads, 140))
        )
        bias = torch.randn(140, rows, heads, 2).to(dtype).permute(3, 2, 1, 0)
        for options in ({}, {"attn_bias": bias}):
            check_call(attention, peer, (q, k, v), options)


def test_nothing_is_seen():
    for keys in (0, 5):
        q, k, v = inputs(2, 4, 2, 1, keys, 16, requires_grad=False)
        out, lse = attention(q, k, v, attn_bias=torch.zeros(1, 1, 1, keys, dtype=torch.bool))
        assert torch.equal(out, torch.zeros_like(out)) and torch.equal(lse, torch.full_like(lse, -torch.inf))
    out, lse = attention(*inputs(0, 4, 2, 1, 5, 16))
    assert out.shape == (0, 4, 1, 16) and lse.shape == (0, 4, 1)


@pytest.mark.at_home
@pytest.mark.parametrize("dtype", DTYPES)
def test_packed_samples_have_equal_bits(dtype):
    for i, (heads, key_heads, rows) in enumerate(
        [(8, 8, 1), (6, 2, 1), (3, 3, 5), (4, 2, 4), (12, 12, 2), (8, 1, 1), (2, 2, 8)]
    ):
        for keys in (1, 31, 65, 100, 128, 129, 200, 230, 300):
            depth = (8, 24, 32, 64, 128)[(i + keys) % 5]
            options = {}, *options_of(heads, dtype)
            q, k, v = (
                torch.randn(count, of, depth).to(dtype)
                for count, of in ((40 + rows, heads), (50 + keys, key_heads), (50 + keys, key_heads))
            )
            alone = [x[first:].transpose(0, 1).unsqueeze(0) for x, first in ((q, 40), (k, 50), (v, 50))]
            for each in options:
                longest = max(40, rows), max(50, keys)
                packed = torch.ops.tile.attention_varlen(q, k, v, starts([40, rows]), starts([50, keys]), *longest, **each)
                out, lse = attention(*alone, **each)
                assert torch.equal(out[0].transpose(0, 1), packed[0][40:]), (keys, each)
                assert torch.equal(lse[0], packed[1][:, 40:]), (keys, each)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "batch, heads, key_heads, rows", [(1, 16, 8, 1), (1, 8, 8, 1), (2, 6, 6, 1), (1, 8, 4, 3), (3, 4, 2, 2)]
)
def test_threads_change_no_bit(batch, heads, key_heads, rows, dtype):
    """Blocks have fewer heads where there are more threads."""
    args = inputs(batch, heads, key_heads, rows, 300, 64, dtype=dtype, requires_grad=False)
    one, *others = with_torch_threads((1, 2, 3, 4, 8), lambda: attention(*args))
    for out, lse in others:
        assert torch.equal(out, one[0]) and torch.equal(lse, one[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("depth", [1, 64, 100, 129, 256])
def test_head_dims(depth, dtype):
    for batch, heads, key_heads, rows in ((2, 4, 4, 1), (1, 8, 2, 1), (1, 5, 5, 3)):
        for keys in (1, 128, 140):
            args = inputs(batch, heads, key_heads, rows, keys, depth, dtype=dtype)
            check_call(attention, peer, args, {"is_causal": keys == 140})
