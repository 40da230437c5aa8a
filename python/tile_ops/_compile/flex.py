"""flex_attention in the graphs of Dynamo: ours computes it where its functions are texts, otherwise tensor operations do."""

import operator
import re

import torch

from . import choice, flex_text, ladder, report
from .active import Refused, current
from .flex_steps import LSE, MASK_MOD, OUT, TOP, in_steps, like_query, mask_of, unit_of
from .patterns import MOST_DEPTH

flex_attention = torch.ops.higher_order.flex_attention
NAME = "flex_attention"
# Texts, as flex_text writes them, that only add a captured tensor: attn_bias does the same.
BIASED = ("t0 = (score + x0); t0", "t0 = (x0 + score); t0")
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _lowered(tensors):
    """Returns tensors as autocast gives them to attention."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(each.to(dtype) if each.is_floating_point() and each.dtype != torch.float64 else each for each in tensors)


def _operand(tensor, axes, extents):
    """Returns a captured tensor as [batch, heads, query, key], 1 where it does not vary; None if it is too short. A table, which
    no axes index, stays as it is."""
    if axes is None:
        return tensor
    for i in reversed(range(len(axes))):
        if isinstance(axes[i], int):
            tensor = tensor.select(i, axes[i])
    axes = [axis for axis in axes if not isinstance(axis, int)]
    limits = [extents[flex_text.INDICES.index(axis)] for axis in axes]
    if any(not tensor.shape[i] >= limit for i, limit in enumerate(limits)):
        return None
    for i, limit in enumerate(limits):
        tensor = tensor.narrow(i, 0, limit)
    order = sorted(range(len(axes)), key=lambda i: flex_text.INDICES.index(axes[i]))
    tensor = tensor.permute(order)
    return tensor.reshape([limit if axis in axes else 1 for axis, limit in zip(flex_text.INDICES, extents)])


def _why_not(query, key, value, scale, wanted, score):
    """Returns why ours does not compute a call, or None."""
    if current() is None:
        return "another compiler"
    why = choice.keeps_steps(current(), query, key)
    if why is not None or isinstance(score, str):
        return why or score
    if query.dtype not in DTYPES or not query.dtype == key.dtype == value.dtype:
        return "ours takes floats of one dtype"
    if query.shape[3] > MOST_DEPTH or value.shape[3] > MOST_DEPTH:
        return f"ours takes heads of at most {MOST_DEPTH}"
    if wanted[TOP]:
        return "the largest scores are wanted"
    if not isinstance(scale, (int, float)):
        return "the scale varies"
    return None


def _wants_fixed_order(query):
    return query.device.type != "cpu" and torch.are_deterministic_algorithms_enabled()


def _is_bias(operand):
    return operand.is_floating_point() and operand.shape[2] != 1 and operand.shape[3] != 1


def _learned_last(text, operands, learned):
    """Returns (text, operands, learned ones) for the operator, which numbers learned operands after the others."""
    order = sorted(range(len(operands)), key=lambda number: learned[number])
    text = re.sub(r"\bx(\d+)\b", lambda name: f"x{order.index(int(name[1]))}", text)
    count = len(operands) - sum(learned)
    ordered = [operands[number] for number in order]
    return text, ordered[:count], ordered[count:]


def _ours(query, key, value, block_mask, scale, kernel_options, score_buffers, mask_buffers, wanted, score, seen):
    """Returns the results by our attention, or why it does not compute them."""
    batch, heads, rows, _ = query.shape
    extents = batch, heads, rows, key.shape[2]
    text, reads = score
    if text and any(extent > flex_text.MOST_LENGTH for extent in extents):
        return "a text does not count so many queries and keys"
    operands = [_operand(score_buffers[number], axes, extents) for number, axes in reads]
    if any(each is None for each in operands):
        return "a captured tensor is shorter than the scores"
    learned = [torch.is_grad_enabled() and each.requires_grad for each in operands]
    if any(axes is None and own for (_, axes), own in zip(reads, learned)) and _wants_fixed_order(query):
        return "the gradient of a table has no fixed order on a GPU"
    key, value = (each.expand(batch, *each.shape[1:]) for each in (key, value))
    window, read = seen
    options = {"scale": float(scale)}
    if window is None:
        own = [extent if axis in read else 1 for axis, extent in zip(flex_text.INDICES, extents)]
        options["attn_bias"] = mask_of(block_mask[MASK_MOD], own, mask_buffers, query.device)
    elif window[1] == 0:
        options |= {"is_causal": True, "window": [-1 if window[0] is None else window[0], -1]}
    elif window != (None, None):
        options["window"] = [-1 if each is None else each for each in window]
    try:
        if text in BIASED and "attn_bias" not in options and _is_bias(operands[0]):
            text, options["attn_bias"] = "", operands[0]  # kernels copy its tiles ahead
        if text:
            text, operands, learned = _learned_last(text, operands, learned)
            out, lse = torch.ops.tile._attention_with_score(
                query, key, value, operands, learned=learned or None, score=text, **options
            )
        else:
            out, lse = torch.ops.tile.attention(query, key, value, causal_align="top_left", **options)
    except (ValueError, TypeError, NotImplementedError) as error:
        return str(error).splitlines()[0]
    return like_query(out, query), lse / unit_of(kernel_options) if wanted[LSE] else None, None


def compute(
    query, key, value, score_mod, block_mask, scale, kernel_options, score_buffers=(), mask_buffers=(), *, wanted, score, seen
):
    """Stands in a graph for flex_attention. wanted: of its results.

    score: (text, what its operands read), or why there is none; seen: the window of the mask and what its function reads.
    """
    query, key, value = _lowered((query, key, value))
    with torch.autocast(query.device.type, enabled=False):
        why = _why_not(query, key, value, scale, wanted, score)
        if why is None:
            found = _ours(
                query, key, value, block_mask, scale, kernel_options, score_buffers, mask_buffers, wanted, score, seen
            )
            if not isinstance(found, str):
                return found
            why = found
        if current() is not None:
            current().steps[NAME] = why
        return in_steps(query, key, value, score_mod, block_mask, scale, kernel_options, score_buffers, mask_buffers, wanted)


def _wanted(node):
    """Returns which of the three results something reads."""
    if any(user.target is not operator.getitem for user in node.users):
        return (True, True, True)
    return tuple(any(user.args[1] == index and user.users for user in node.users) for index in (OUT, LSE, TOP))


def _example(value):
    return value.meta.get("example_value", value.meta.get("val")) if isinstance(value, torch.fx.Node) else value


def _functions(module, node):
    """Returns (score, seen) of a call, see compute()."""
    arguments = [*node.args, *[()] * (9 - len(node.args))]
    query, key = map(_example, arguments[:2])
    score_mod, mask_mod = arguments[3], arguments[4][MASK_MOD]
    extents = [each if isinstance(each, int) else flex_text.MOST_LENGTH for each in (*query.shape[:3], key.shape[2])]
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    zero, index = (torch.empty((), dtype=each, device="meta") for each in (dtype, torch.int32))
    score_buffers, mask_buffers = ([_example(each) for each in buffers] for buffers in arguments[7:9])

    def function(at):
        return getattr(module, at.target)

    seen = flex_text.seen_of(function(mask_mod), [*[index] * 4, *mask_buffers], query.device)
    try:
        found = flex_text.score_of(function(score_mod), [zero, *[index] * 4, *score_buffers], dtype, query.device, extents)
        score = found.text, found.reads
    except Refused as error:
        score = f"no text: {error}"
    return score, (seen.window, seen.reads)


def take_over(gm, options):
    """Makes each flex_attention of a graph, and of the graphs in it, a call of compute()."""
    for module in gm.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        found = [node for node in module.graph.nodes if node.op == "call_function" and node.target is flex_attention]
        for node in found:
            try:
                score, seen = _functions(module, node)
            except Exception as error:  # this runs before the graphs that ladder.py guards
                place = report.place_of(node.meta.get("stack_trace"))
                score, seen = ladder.reason_to_stay(error, place, options), (None, flex_text.INDICES)
            node.target = compute
            node.kwargs = {**node.kwargs, "wanted": _wanted(node), "score": score, "seen": seen}
        if found:
            module.recompile()
