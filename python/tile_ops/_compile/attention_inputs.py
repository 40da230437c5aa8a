"""Gives scaled_dot_product_attention operands that torch's fused forms take, before it is taken apart.

For other operands torch writes out products and a softmax, in which patterns.py finds no attention. No result changes.
"""

import functools

import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import statically_known_true as known

from .dynamo_graph import arguments, change_all, example, is_tensor, name_of, new_call, set_example
from .patterns import is_dense

aten = torch.ops.aten
CALLS = (F.scaled_dot_product_attention, aten.scaled_dot_product_attention.default)
SCHEMA = aten.scaled_dot_product_attention.default._schema
# Functions and methods behind which the strides of a result do not matter, up to one that reads it in any.
_PASSED_ON, _ENDS = ("transpose", "permute", "reshape"), ("contiguous", "clone", "linear")


def _has_wide_rows(mask):
    """Returns True if the fused forms of a GPU refuse a mask: the keys of a row have to lie side by side."""
    return mask is not None and mask.dim() > 0 and not known(mask.stride(-1) == 1)


def _repetitions(query, key, value):
    """Returns how often heads of key and value are to be repeated, or None if that is not known."""
    heads = [each.shape[-3] for each in (query, key, value)]
    if not all(isinstance(each, int) and each > 0 for each in heads) or any(heads[0] % each for each in heads):
        return None
    return [heads[0] // each for each in heads[1:]]


def _has_batches(query, key, value, mask, is_grouped):
    """Returns True if three dimensions are to become four."""
    if any(each.dim() != 3 for each in (query, key, value)) or is_grouped:
        return False
    same = known(query.shape[0] == key.shape[0]) and known(query.shape[0] == value.shape[0])
    return same and (mask is None or mask.dim() <= 3)


def _strides_matter(node):
    """Returns True if something may depend on the strides of a result."""
    while True:
        users = list(node.users)
        if len(users) != 1 or not users[0].args or users[0].args[0] is not node:
            return True
        node = users[0]
        if name_of(node) in _ENDS:
            return False
        if name_of(node) not in _PASSED_ON:
            return True


def _dense(make, mask):
    """Returns a mask whose rows are dense, in new memory without what is repeated."""
    value, dense = example(mask), mask
    for axis in range(value.dim() - 1):
        if known(value.stride(axis) == 0) and known(value.shape[axis] > 1):
            dense = make("narrow", (dense, axis, 0, 1))
    is_repeated, dense = dense is not mask, make("clone", (dense,), memory_format=torch.contiguous_format)
    return make("expand_as", (dense, mask)) if is_repeated else dense


def _change(module, node):
    given = arguments(node, SCHEMA)
    query, key, value, mask = (example(given[name]) for name in ("query", "key", "value", "attn_mask"))
    out = example(node)
    tensors = [query, key, value, out] + ([] if mask is None else [mask])
    if not all(map(is_tensor, tensors)) or given["dropout_p"] != 0:  # the random numbers of the forms differ
        return False
    grouped, on_gpu = given["enable_gqa"], query.device.type != "cpu"
    batches = _has_batches(query, key, value, mask, grouped)
    if not batches and any(each.dim() != 4 for each in (query, key, value)):
        return False
    wide = on_gpu and _has_wide_rows(mask)
    # Only FlashAttention takes groups of heads. It takes no mask, and causal calls of equal lengths.
    lengths_differ = not known(query.shape[-2] == key.shape[-2])
    repeats = [1, 1]
    if grouped and on_gpu and (mask is not None or (given["is_causal"] and lengths_differ)):
        repeats = _repetitions(query, key, value) or repeats
    if not is_dense(out, range(out.dim()), out.stride()):  # it is no product that is written out
        return False
    if not (batches or wide or repeats != [1, 1]):
        return False
    graph, strides_matter = module.graph, on_gpu and _strides_matter(node)

    make = functools.partial(new_call, graph, like=node)

    with graph.inserting_before(node):
        if wide:
            given["attn_mask"] = _dense(make, given["attn_mask"])
        for name, times in zip(("key", "value"), repeats):
            if times != 1:
                given[name], given["enable_gqa"] = make("repeat_interleave", (given[name], times, -3)), False
        if batches:
            for name in ("query", "key", "value", *(["attn_mask"] if mask is not None and mask.dim() == 3 else [])):
                given[name] = make("unsqueeze", (given[name], 1))
    node.args = tuple(given.pop(name) for name in ("query", "key", "value", "attn_mask", "dropout_p", "is_causal"))
    node.kwargs = given
    users, end = list(node.users), node
    if batches:
        set_example(node, lambda: out.unsqueeze(1))
    for target, *args in [("squeeze", 1)] * batches + [("contiguous",)] * strides_matter:
        with graph.inserting_after(end):
            end = make(target, (end, *args))
    for user in users:
        if end is not node:
            user.replace_input_with(node, end)
    return True


def take_over(gm, options):
    """Changes the operands of each call in a graph of Dynamo, and in the graphs in it, that torch would write out."""
    change_all(gm, CALLS, _change, options, "attention")
