"""Calls of attention with few queries and without gradients, whose keys a GPU divides among blocks."""

import torch
from attention_reference import inputs

KEYS = 300


def call(batch, heads, key_heads, queries, depth=64, keys=KEYS, width=None, **options):
    """A function from a dtype to the tensors and options of a call. Options that are functions get the dtype."""

    def make(dtype):
        given = {name: value(dtype) if callable(value) else value for name, value in options.items()}
        return inputs(batch, heads, key_heads, queries, keys, depth, width, dtype, requires_grad=False), given

    return make


def numbers(*shape):
    return lambda dtype: torch.randn(shape).to(dtype)


def mask(*shape):
    return lambda dtype: torch.rand(shape) < 0.7


def static_cache(dtype):
    """A mask of numbers that hides the end of a cache, as a model's does."""
    bias = torch.zeros(1, 1, 1, KEYS, dtype=dtype)
    bias[..., 130:] = torch.finfo(dtype).min
    return bias


def nothing_seen(dtype):
    """The first sample and one query of the second see no key."""
    seen = torch.rand(2, 1, 3, KEYS) < 0.7
    seen[0] = seen[1, 0, 1] = False
    return seen


def hidden(dtype):
    return torch.zeros(2, 1, 3, KEYS).masked_fill(~nothing_seen(dtype), -torch.inf).to(dtype)


def adjacent_keys(dtype):
    """A bias whose heads lie next to each other in memory."""
    return torch.randn(KEYS, 3, 6, 2).to(dtype).permute(3, 2, 1, 0)


CALLS = {
    "plain": call(1, 8, 2, 1),
    "a mask": call(1, 8, 2, 1, attn_bias=mask(1, 1, 1, KEYS)),
    "a static cache": call(1, 8, 2, 1, attn_bias=static_cache),
    "a mask of each sample": call(2, 4, 4, 1, attn_bias=mask(2, 1, 1, KEYS)),
    "a mask of each query": call(2, 6, 2, 3, attn_bias=mask(2, 1, 3, KEYS)),
    "numbers of each query": call(2, 6, 2, 3, attn_bias=numbers(3, KEYS)),
    "numbers of each query, no group": call(2, 3, 3, 3, attn_bias=numbers(1, 1, 3, KEYS), is_causal=True),
    "numbers of each head": call(2, 6, 2, 1, attn_bias=numbers(6, 1, KEYS)),
    "numbers of each head, no group": call(1, 3, 3, 4, attn_bias=numbers(3, 1, KEYS)),
    "numbers of each head and query": call(2, 6, 2, 3, attn_bias=numbers(2, 6, 3, KEYS), softcap=2.0),
    "numbers of all keys": call(2, 6, 2, 3, attn_bias=numbers(6, 3, 1), window=(100, -1)),
    "adjacent numbers": call(2, 6, 2, 3, attn_bias=adjacent_keys),
    "float32 numbers": call(2, 6, 2, 3, attn_bias=lambda dtype: torch.randn(1, 6, 3, KEYS)),
    "nothing seen": call(2, 6, 2, 3, attn_bias=nothing_seen),
    "nothing seen, numbers": call(2, 6, 2, 3, attn_bias=hidden, sinks=numbers(6)),
    "causal": call(2, 6, 2, 5, is_causal=True),
    "causal from the first": call(2, 6, 2, 5, is_causal=True, causal_align="top_left"),
    "more queries than keys": call(2, 6, 2, 5, keys=3, is_causal=True),
    "windows": call(2, 6, 2, 5, window=(90, 0)),
    "windows on both sides": call(1, 6, 2, 5, window=(70, 30), causal_align="top_left", attn_bias=mask(1, KEYS)),
    "slopes": call(2, 6, 2, 3, alibi_slopes=lambda dtype: torch.rand(2, 6), is_causal=True),
    "slopes of all keys": call(2, 6, 2, 3, alibi_slopes=lambda dtype: torch.rand(6), attn_bias=numbers(1, KEYS)),
    "sinks": call(1, 6, 2, 1, sinks=numbers(6), scale=-0.3, attn_bias=mask(1, KEYS)),
    "as many rows as a tile": call(1, 32, 1, 1, attn_bias=mask(1, KEYS)),
    "no keys": call(2, 6, 2, 3, keys=0, attn_bias=mask(3, 0)),
    "one key": call(2, 6, 2, 3, keys=1, attn_bias=mask(3, 1)),
    "no group of one tile": call(3, 5, 5, 1, keys=64),
    "head dim 1": call(1, 4, 2, 1, 1, attn_bias=mask(1, KEYS)),
    "head dim 40, width 72": call(1, 4, 2, 1, 40, width=72, attn_bias=mask(1, KEYS)),
    "head dim 128": call(1, 4, 1, 2, 128, attn_bias=mask(2, KEYS)),
    "head dim 256, width 200": call(1, 4, 1, 1, 256, width=200, attn_bias=mask(1, KEYS)),
}  # fmt: skip


def strided(dtype):
    """Heads behind queries and keys, parts of rows of a longer tensor: a function from (heads, length) to a tensor."""
    return lambda heads, length: torch.randn(2, length, heads, 70).to(dtype)[..., 3:67].transpose(1, 2)
