"""Attention in plain torch with our signature: the peer and, in float64, the reference of the attention tests."""

import math

import tile_ops  # noqa: F401
import torch
import torch.nn.functional as F


def distances(rows, keys, causal_align):
    """[rows, keys]: how many positions a key is before the query's own."""
    offset = keys - rows if causal_align == "bottom_right" else 0
    return torch.arange(rows).unsqueeze(1) + offset - torch.arange(keys)


def causal_mask(rows, keys, causal_align):
    """True where a query may look: row r at the keys up to r + offset."""
    return distances(rows, keys, causal_align) >= 0


def seen(rows, keys, is_causal, causal_align, window):
    """True where a query may look, None where it may everywhere."""
    distance, before, after = distances(rows, keys, causal_align), window[0], 0 if is_causal else window[1]
    if before < 0 and after < 0:
        return None
    return (distance <= before if before >= 0 else distance > -torch.inf) & (distance >= -after if after >= 0 else True)


def peer(
    query,
    key,
    value,
    *,
    attn_bias=None,
    is_causal=False,
    causal_align="bottom_right",
    scale=None,
    window=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    sinks=None,
    kept=None,
):
    """(out, lse): torch's operator where it has these options, else the softmax spelled out in query's dtype; and the
    log of the sum of exponentials. kept: what dropout multiplies probabilities by."""
    mask = attn_bias
    if mask is not None and mask.is_floating_point():
        mask = mask.to(query.dtype)
    if mask is not None:
        mask = mask.broadcast_to(torch.broadcast_shapes(mask.shape, (query.shape[2], key.shape[2])))
    if alibi_slopes is not None:
        slopes = alibi_slopes.to(query.dtype).expand(query.shape[0], query.shape[1])[:, :, None, None]
        away = -slopes * distances(query.shape[2], key.shape[2], causal_align).abs()
        mask = away if mask is None else away.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else mask + away
    visible = seen(query.shape[2], key.shape[2], is_causal, causal_align, window)
    if visible is not None:
        if mask is None:
            mask = visible
        else:
            mask = mask & visible if mask.dtype == torch.bool else mask.masked_fill(~visible, -math.inf)
    group = query.shape[1] // max(key.shape[1], 1)
    factor = 1 / math.sqrt(query.shape[3]) if scale is None else scale

    def scores(dtype):
        product = query.to(dtype) @ key.to(dtype).repeat_interleave(group, 1).mT * factor
        if softcap:
            product = softcap * torch.tanh(product / softcap)
        if mask is not None:
            product = product.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else product + mask.to(dtype)
        if sinks is not None:
            sink = sinks.to(dtype)[None, :, None, None].expand(*product.shape[:3], 1)
            product = torch.cat([product, sink], -1)
        # torch's gradients are NaN where a row is -inf throughout.
        empty = (product == -math.inf).all(-1)
        return product.masked_fill(empty.unsqueeze(-1), 0), empty

    if softcap or sinks is not None or kept is not None:
        product, empty = scores(query.dtype)
        weights = product.softmax(-1).masked_fill(empty.unsqueeze(-1), 0)[..., : key.shape[2]]
        out = (weights if kept is None else weights * kept.to(weights.dtype)) @ value.repeat_interleave(group, 1)
    else:
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=True)
    product, empty = scores(torch.float64 if query.dtype == torch.float64 else torch.float32)
    return out, product.logsumexp(-1).masked_fill(empty, -math.inf)


def inputs(batch, heads, key_heads, rows, keys, depth, value_depth=None, dtype=torch.float32, requires_grad=True):
    """Random query, key and value."""
    shapes = ((batch, heads, rows, depth), (batch, key_heads, keys, depth), (batch, key_heads, keys, value_depth or depth))
    return tuple(torch.randn(shape).to(dtype).requires_grad_(requires_grad) for shape in shapes)


def kept_by(seed, p, batch, heads, rows, keys):
    """Returns the factors of dropout, found from the results of equal scores."""
    q = torch.zeros(batch, heads, rows, 1, dtype=torch.float64)
    k = torch.zeros(batch, heads, keys, 1, dtype=torch.float64)
    columns = []
    for first in range(0, keys, 256):  # the head dim is at most 256
        v = torch.eye(keys, dtype=torch.float64)[:, first : first + 256].expand(batch, heads, keys, -1)
        columns.append(torch.ops.tile.attention(q, k, v, dropout_p=p, seed=seed)[0] != 0)
    return torch.cat(columns, -1).double() / (1 - p or 1)


def triples(decode, query, lengths, cache, options):
    """Yields (what it is, our result, torch's, the float64 one) of every sequence. cache: keys and values [batch, heads,
    length, depth], and what `decode` is given: caches, and the table of their pages or None."""
    options = dict(options)
    (key, value), given, table = cache
    results = decode(query, *given, torch.tensor(lengths), block_table=table, **options)
    slopes = options.pop("alibi_slopes", None)
    for b, length in enumerate(lengths):
        own = {} if slopes is None else {"alibi_slopes": slopes if slopes.dim() == 1 else slopes[b : b + 1]}
        args = query[b : b + 1], key[b : b + 1, :, :length], value[b : b + 1, :, :length]
        theirs = peer(*args, is_causal=True, **options, **own)
        wide = {name: v.double() if isinstance(v, torch.Tensor) else v for name, v in (options | own).items()}
        reference = peer(*(x.double() for x in args), is_causal=True, **wide)
        for name, mine, other, exact in zip(("out", "lse"), results, theirs, reference):
            yield f"{name} of sequence {b}", mine[b : b + 1], other, exact
