"""Masks of many tiles: which tiles are visited, values and gradients of masks by rules, at random and of documents."""

import math

import pytest
import tile_ops  # noqa: F401
import torch
from attention_reference import causal_mask, distances, inputs, peer
from numerics import check_call
from opinfo import DTYPES

pytestmark = pytest.mark.usefixtures("deterministic")

attention = torch.ops.tile.attention
ROWS, KEYS = 200, 413


def documents(rows, keys):
    """True where query and key are in the same document, of lengths that no tile has."""
    starts = torch.tensor([0, 50, 51, 190, 300])
    of_key = torch.bucketize(torch.arange(keys), starts, right=True)
    return of_key[keys - rows :].unsqueeze(1) == of_key


def blocks(rows, keys):
    """Blocks of 32 in no order, so that a tile sees none, some or all of each."""
    kept = torch.rand(-(-rows // 32), -(-keys // 32)) < 0.4
    return kept.repeat_interleave(32, 0)[:rows].repeat_interleave(32, 1)[:, :keys]


DISTANCES = distances(ROWS, KEYS, "bottom_right")
MASKS = {
    "causal": causal_mask(ROWS, KEYS, "bottom_right"),
    "causal from the top": causal_mask(ROWS, KEYS, "top_left"),
    "window": (DISTANCES >= 0) & (DISTANCES < 70),
    "prefix": (DISTANCES >= 0) | (torch.arange(KEYS) < 100),
    "documents": documents(ROWS, KEYS),
    "blocks": blocks(ROWS, KEYS),
    "random": torch.rand(ROWS, KEYS) < 0.5,
    "few": torch.rand(ROWS, KEYS) < 0.001,
    "no key": torch.zeros(ROWS, KEYS, dtype=torch.bool),
    "all keys": torch.ones(ROWS, KEYS, dtype=torch.bool),
    "padding": torch.arange(KEYS) < 290,
}


def floating(mask, dtype):
    return torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -math.inf)


def check(name, dtype, is_causal, kind):
    mask = MASKS[name] if kind == "bool" else floating(MASKS[name], dtype)
    check_call(attention, peer, inputs(1, 4, 2, ROWS, KEYS, 16, dtype=dtype), {"attn_bias": mask, "is_causal": is_causal})


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    check(name, torch.float32, False, "bool")
    check(name, torch.bfloat16, False, "floating")


@pytest.mark.parametrize("kind", ["bool", "floating"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_masks_in_each_dtype(dtype, kind):
    check("documents", dtype, True, kind)


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MASKS)
def test_all_masks_in_each_dtype(name, dtype):
    for is_causal in (False, True):
        for kind in ("bool", "floating"):
            check(name, dtype, is_causal, kind)


@pytest.mark.parametrize("shape, heads, key_heads", [
    ((2, 1), 4, 2), ((1, 4), 4, 2), ((2, 8), 8, 8),  # from 8 key heads on, a CPU computes gradients in one pass
])  # fmt: skip
def test_masks_of_samples_and_heads(shape, heads, key_heads):
    mask = torch.stack([blocks(ROWS, KEYS) for _ in range(shape[0] * shape[1])]).view(*shape, ROWS, KEYS)
    for dtype in (torch.float32, torch.bfloat16):
        check_call(attention, peer, inputs(2, heads, key_heads, ROWS, KEYS, 16, dtype=dtype), {"attn_bias": mask})


def test_a_mask_beside_options():
    args = inputs(1, 4, 2, ROWS, KEYS, 16)
    options = {"window": (150, 20), "softcap": 3.0, "alibi_slopes": torch.rand(4), "sinks": torch.randn(4).requires_grad_()}
    check_call(attention, peer, args, {"attn_bias": MASKS["documents"], **options})


def test_biases_keep_their_gradient():
    bias = (floating(MASKS["window"], torch.float64) + torch.randn(KEYS, dtype=torch.float64)).requires_grad_()
    args = inputs(1, 4, 2, ROWS, KEYS, 16, dtype=torch.float64)
    check_call(attention, peer, args, {"attn_bias": bias})
    zeros = torch.zeros(ROWS, KEYS, dtype=torch.float64, requires_grad=True)
    check_call(attention, peer, args, {"attn_bias": zeros, "is_causal": True})


@pytest.mark.parametrize("dtype, of_bias", [
    (torch.float32, torch.float32), (torch.bfloat16, torch.float32),
    *(pytest.param(dtype, dtype, marks=pytest.mark.long) for dtype in DTYPES if dtype != torch.float32),
    pytest.param(torch.float16, torch.float32, marks=pytest.mark.long),
], ids=str)  # fmt: skip
def test_numbers_in_some_tiles(dtype, of_bias):
    """A tile gets numbers added, is hidden in part or is seen wholly; rows of one see nothing."""
    bias = floating(MASKS["blocks"] & MASKS["prefix"], of_bias)
    bias[:, 96:200] += torch.randn(ROWS, 104, dtype=of_bias)
    bias[70:150, 128:] += 3
    bias[100:103] = -math.inf
    for given in (bias, bias.expand(2, 1, ROWS, KEYS), bias[:1]):
        given = given.clone().requires_grad_()
        check_call(attention, peer, inputs(2, 4, 2, ROWS, KEYS, 16, dtype=dtype), {"attn_bias": given})


@pytest.mark.parametrize("number", [-0.0, 1e-30, math.inf, math.nan], ids=str)
def test_one_number_in_a_mask(number):
    """A tile with one number besides zeros is no tile of zeros."""
    args = inputs(1, 4, 1, 256, 512, 16, requires_grad=False)
    bias = torch.zeros(256, 512)
    bias[131, 140] = number
    for ours, theirs in zip(attention(*args, attn_bias=bias), attention(*args, attn_bias=bias.expand(1, 4, 256, 512).clone())):
        torch.testing.assert_close(ours, theirs, equal_nan=True)
    out, _ = attention(*args, attn_bias=bias)
    expected = torch.nn.functional.scaled_dot_product_attention(*args, attn_mask=bias, enable_gqa=True)
    torch.testing.assert_close(out, expected, equal_nan=True)


@pytest.mark.parametrize("kind", ["bool", "floating"])
def test_tiles_that_a_mask_hides_are_not_visited(kind):
    """The first keys are NaN, which zero probabilities would spread."""
    q, k, v = inputs(1, 4, 1, 256, 512, 16)
    mask = distances(256, 512, "bottom_right") < 0
    mask[:, :128] = True
    expected = attention(q, k, v, attn_bias=~mask)[0]
    with torch.no_grad():
        k[:, :, :128] = v[:, :, :128] = math.nan
    out = attention(q, k, v, attn_bias=~mask if kind == "bool" else floating(~mask, torch.float32))[0]
    torch.testing.assert_close(out, expected)
    for grad in torch.autograd.grad(out.sum(), (q, k, v)):
        assert torch.isfinite(grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf], ids=str)
def test_numbers_in_hidden_places(number, dtype):
    """A mask hides keys with such numbers, and causality hides them in a bias. Results and gradients do not change."""
    q, k, v = inputs(1, 4, 2, ROWS, KEYS, 64, dtype=dtype)
    hidden = torch.rand(KEYS) < 0.3
    with torch.no_grad():
        bad = k.clone()
        bad[:, :, hidden] = number
        for given in (bad, k):
            given[..., 5] = k[..., 5]
        for ours, theirs in zip(attention(q, bad, v, attn_bias=~hidden), attention(q, k, v, attn_bias=~hidden)):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    for rows in (q, q[:, :, :60]):  # too few for a summary
        future = ~causal_mask(rows.shape[2], KEYS, "bottom_right")
        bias = torch.randn(rows.shape[2], KEYS).to(dtype)
        found = []
        for each in (bias.masked_fill(future, number), bias.masked_fill(future, 0)):
            out, lse = attention(rows, k, v, attn_bias=each, is_causal=True)
            found.append((out, lse, *torch.autograd.grad(out.sin().sum() + lse.sum(), (q, k, v))))
        for ours, theirs in zip(*found):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["bool", "floating"])
def test_rows_of_tiles_that_see_nothing(kind, dtype):
    """Single rows among others, a tile's worth of them, and the last."""
    mask = MASKS["random"].clone()
    mask[3] = mask[32:100] = mask[ROWS - 1] = False
    given = mask if kind == "bool" else floating(mask, dtype).requires_grad_()
    args = inputs(1, 4, 2, ROWS, KEYS, 64, dtype=dtype)
    check_call(attention, peer, args, {"attn_bias": given})
    out, lse = attention(*args, attn_bias=given)
    empty = ~mask.any(1)
    assert not out[:, :, empty].any() and torch.all(lse[:, :, empty] == -math.inf)
    leaves = args if kind == "bool" else (*args, given)
    grads = torch.autograd.grad(out.sum() + lse[:, :, ~empty].sum(), leaves)
    assert all(torch.isfinite(grad).all() for grad in grads) and not grads[0][:, :, empty].any()


def test_a_mask_that_changes_is_read_again():
    args = inputs(2, 2, 2, ROWS, KEYS, 16)
    mask = MASKS["window"].clone()
    for name in ("window", "causal", "no key", "blocks"):
        mask.copy_(MASKS[name])
        for ours, theirs in zip(attention(*args, attn_bias=mask), attention(*args, attn_bias=MASKS[name].clone())):
            assert torch.equal(ours, theirs)
    out, _ = attention(*args, attn_bias=mask)
    mask.fill_(True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_masks_in_other_memory_orders():
    args = inputs(2, 2, 2, ROWS, KEYS, 16)
    mask = blocks(ROWS, KEYS)
    expected = attention(*args, attn_bias=mask)
    wide = torch.zeros(ROWS, 2 * KEYS, dtype=torch.bool)
    wide[:, ::2] = mask
    for given in (mask.t().contiguous().t(), wide[:, ::2], mask.expand(2, 1, ROWS, KEYS), mask.expand(2, 2, ROWS, KEYS)):
        for ours, theirs in zip(attention(*args, attn_bias=given), expected):
            assert torch.equal(ours, theirs)


def test_masks_under_vmap():
    q, k, v = (torch.randn(3, 1, 2, length, 16) for length in (ROWS, KEYS, KEYS))
    for mask, axis in ((torch.stack([blocks(ROWS, KEYS) for _ in range(3)]), 0), (MASKS["causal"], None)):
        ours = torch.vmap(lambda q, k, v, mask: attention(q, k, v, attn_bias=mask)[0], in_dims=(0, 0, 0, axis))(q, k, v, mask)
        for i in range(3):
            torch.testing.assert_close(ours[i], attention(q[i], k[i], v[i], attn_bias=mask[i] if axis == 0 else mask)[0])
