"""flex_attention as tensor operations: the form that takes all functions, and the masks of the other form."""

import math

import torch

from . import compat

MASK_MOD = -1  # in the tuple of a block mask
OUT, LSE, TOP = range(3)


def over_points(function, prefix, captured):
    """Returns a function of (b, h, q, k) of numbers as one of four ranges, whose result has these four dimensions.

    prefix: axes of arguments before these, which vary at each point; captured: how many arguments follow, which do not.
    """
    for axis in range(3, -1, -1):
        own = tuple(0 if i == axis else None for i in range(4))
        function = torch.vmap(function, in_dims=(*prefix, *own, *[None] * captured), out_dims=0)
    return function


def ranges(extents, device):
    return [torch.arange(extent, dtype=torch.int32, device=device) for extent in extents]


def mask_of(mask_mod, extents, captured, device):
    """Returns the mask [batch, heads, query, key] of a mask_mod; an extent may be 1 where it does not read that number."""
    if 0 in extents:  # vmap takes no empty axes
        return torch.zeros(extents, dtype=torch.bool, device=device)
    with compat.indices_are_tensors():
        return over_points(mask_mod, (), len(captured))(*ranges(extents, device), *captured).to(torch.bool)


def like_query(out, query):
    """Returns a result in memory as the query is, but with its last dimension dense: so the graph was traced."""
    order = [*sorted(range(3), key=lambda axis: (query.stride(axis), -axis), reverse=True), 3]
    back = [order.index(axis) for axis in range(4)]
    return out.permute(order).contiguous().permute(back)


def unit_of(kernel_options):
    """Returns what the operator's logarithms are divided by."""
    return 1 if kernel_options.get("BACKEND") == "FLASH" else math.log(2)


def scores_of(query, key, score_mod, mask_mod, scale, score_buffers, mask_buffers):
    """Returns the scores [batch, heads, query, key] after the user's functions; -inf where a score is not seen."""
    batch, heads, rows, depth = query.shape
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    # The query heads that share a key head are rows of one product.
    grouped = query.to(dtype).reshape(batch, key.shape[1], heads // key.shape[1] * rows, depth)
    scores = (grouped @ key.to(dtype).transpose(-2, -1)).reshape(batch, heads, rows, key.shape[2]) * scale
    if 0 in scores.shape:
        return scores
    points = ranges(scores.shape, query.device)
    with compat.indices_are_tensors():
        scores = over_points(score_mod, (0,), len(score_buffers))(scores, *points, *score_buffers)
    seen = mask_of(mask_mod, scores.shape, mask_buffers, query.device)
    return torch.where(seen, scores.to(dtype), -math.inf)


def in_steps(query, key, value, score_mod, block_mask, scale, kernel_options, score_buffers, mask_buffers, wanted):
    """Computes flex_attention as tensor operations, whose gradient is torch's. wanted: of out, logsumexp and maximum."""
    batch, heads, rows, _ = query.shape
    key, value = (each.expand(batch, *each.shape[1:]) for each in (key, value))
    scores = scores_of(query, key, score_mod, block_mask[MASK_MOD], scale, score_buffers, mask_buffers)
    out = lse = top = None
    unit = unit_of(kernel_options)
    if wanted[OUT]:
        probabilities = torch._safe_softmax(scores, -1).to(query.dtype)
        grouped = probabilities.reshape(batch, value.shape[1], heads // value.shape[1] * rows, value.shape[2])
        out = like_query((grouped @ value.to(query.dtype)).reshape(batch, heads, rows, value.shape[3]), query)
    if wanted[LSE]:
        # Rows without a key: their sum's logarithm has no gradient.
        empty = (scores == -math.inf).all(-1)
        lse = torch.where(empty, -math.inf, torch.where(empty.unsqueeze(-1), 0, scores).logsumexp(-1))
        lse = lse / unit
    if wanted[TOP]:
        top = scores.detach().amax(-1) / unit
    return out, lse, top
