"""Attention in plain torch with our signature: the peer and, in float64, the reference of the attention tests."""

import math

import torch
import torch.nn.functional as F


def causal_mask(rows, keys, causal_align):
    """True where a query may look: row r at the keys up to r + offset."""
    offset = keys - rows if causal_align == "bottom_right" else 0
    return torch.arange(keys) <= torch.arange(rows).unsqueeze(1) + offset


def peer(query, key, value, *, attn_bias=None, is_causal=False, causal_align="bottom_right", scale=None):
    """(out, lse): torch's operator, and the log of the sum of exponentials spelled out."""
    mask = attn_bias
    if mask is not None and mask.is_floating_point():
        mask = mask.to(query.dtype)
    if mask is not None:
        mask = mask.broadcast_to(torch.broadcast_shapes(mask.shape, (query.shape[2], key.shape[2])))
    if is_causal:
        causal = causal_mask(query.shape[2], key.shape[2], causal_align)
        if mask is None:
            mask = causal
        else:
            mask = mask & causal if mask.dtype == torch.bool else mask.masked_fill(~causal, -math.inf)
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=True)

    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    group = query.shape[1] // max(key.shape[1], 1)
    keys = key.to(wide).repeat_interleave(group, 1)
    scores = query.to(wide) @ keys.mT * (1 / math.sqrt(query.shape[3]) if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.to(wide)
    # torch's gradient of logsumexp is NaN where a row is -inf throughout.
    empty = (scores == -math.inf).all(-1)
    return out, scores.masked_fill(empty.unsqueeze(-1), 0).logsumexp(-1).masked_fill(empty, -math.inf)


def inputs(batch, heads, key_heads, rows, keys, depth, value_depth=None, dtype=torch.float32, requires_grad=True):
    """Random query, key and value."""
    shapes = (
        (batch, heads, rows, depth),
        (batch, key_heads, keys, depth),
        (batch, key_heads, keys, value_depth or depth),
    )
    return tuple(torch.randn(shape).to(dtype).requires_grad_(requires_grad) for shape in shapes)
