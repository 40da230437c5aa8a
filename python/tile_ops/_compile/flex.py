"""flex_attention in the graphs of Dynamo: its operator takes functions, and is computed by others before inductor sees it."""

import math
import operator

import torch

from . import compat
from .active import current

flex_attention = torch.ops.higher_order.flex_attention
NAME = "flex_attention"
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


def _lowered(tensors):
    """Returns tensors as autocast gives them to attention."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(each.to(dtype) if each.is_floating_point() and each.dtype != torch.float64 else each for each in tensors)


def like_query(out, query):
    """Returns a result in memory as the query is, but with its last dimension dense: so the graph was traced."""
    order = [*sorted(range(3), key=lambda axis: (query.stride(axis), -axis), reverse=True), 3]
    back = [order.index(axis) for axis in range(4)]
    return out.permute(order).contiguous().permute(back)


def scores_of(query, key, score_mod, block_mask, scale, score_buffers, mask_buffers):
    """Returns the scores [batch, heads, query, key] after the user's functions; -inf where a score is not seen."""
    batch, heads, rows, depth = query.shape
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    # The query heads that share a key head are rows of one product.
    grouped = query.to(dtype).reshape(batch, key.shape[1], heads // key.shape[1] * rows, depth)
    scores = (grouped @ key.to(dtype).transpose(-2, -1)).reshape(batch, heads, rows, key.shape[2]) * scale
    if 0 in scores.shape:
        return scores  # vmap takes no empty axes
    points = [torch.arange(extent, dtype=torch.int32, device=query.device) for extent in scores.shape]
    with compat.indices_are_tensors():
        scores = over_points(score_mod, (0,), len(score_buffers))(scores, *points, *score_buffers)
        seen = over_points(block_mask[MASK_MOD], (), len(mask_buffers))(*points, *mask_buffers)
    return torch.where(seen, scores.to(dtype), -math.inf)


def in_steps(query, key, value, score_mod, block_mask, scale, kernel_options, score_buffers, mask_buffers, wanted):
    """Computes flex_attention as tensor operations, whose gradient is torch's. wanted: of out, logsumexp and maximum."""
    batch, heads, rows, _ = query.shape
    key, value = (each.expand(batch, *each.shape[1:]) for each in (key, value))
    scores = scores_of(query, key, score_mod, block_mask, scale, score_buffers, mask_buffers)
    out = lse = top = None
    unit = 1 if kernel_options.get("BACKEND") == "FLASH" else math.log(2)  # in which the operator returns logarithms
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


def _note(why):
    if current() is not None:
        current().steps[NAME] = why


def compute(query, key, value, score_mod, block_mask, scale, kernel_options, score_buffers=(), mask_buffers=(), *, wanted):
    """Stands in a graph for flex_attention."""
    query, key, value = _lowered((query, key, value))
    with torch.autocast(query.device.type, enabled=False):
        _note("no kernel of ours takes its functions")
        return in_steps(query, key, value, score_mod, block_mask, scale, kernel_options, score_buffers, mask_buffers, wanted)


def _wanted(node):
    """Returns which of the three results something reads."""
    if any(user.target is not operator.getitem for user in node.users):
        return (True, True, True)
    return tuple(any(user.args[1] == index for user in node.users) for index in range(3))


def take_over(gm):
    """Makes each flex_attention of a graph, and of the graphs in it, a call of compute()."""
    for module in gm.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        found = [node for node in module.graph.nodes if node.op == "call_function" and node.target is flex_attention]
        for node in found:
            node.target = compute
            node.kwargs = {**node.kwargs, "wanted": _wanted(node)}
        if found:
            module.recompile()
