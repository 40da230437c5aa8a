"""Fuses a weight, a bias, silu and casts around a norm into it, in an inductor graph."""

import torch

from .activations import find_activation, mul
from .graph import add, convert, fake_result, is_call, new_call, replace, same_layout, same_numbers, value_of, writes_between

rms_norm = torch.ops.tile.rms_norm.default
layer_norm = torch.ops.tile.layer_norm.default
group_norm = torch.ops.tile.group_norm.default
# The positions of parameters among the arguments, and the number of arguments.
WEIGHT, BIAS = 2, 3
_parameters = {rms_norm: (WEIGHT,), layer_norm: (WEIGHT, BIAS), group_norm: (WEIGHT, BIAS)}


def _only_user(node):
    return next(iter(node.users)) if len(node.users) == 1 else None


def _parameter(norm, index):
    return norm.args[index] if len(norm.args) > index else None


def _with_arguments(norm, values):
    args = [*norm.args, *[None] * (max(values) + 1 - len(norm.args))]
    for index, value in values.items():
        args[index] = value
    return tuple(args)


def _put(graph, norm, end, args, kwargs):
    """Replaces `end` by the norm with these arguments and returns it, or None if the result would differ."""
    value, expected = fake_result(norm.target, args, kwargs), value_of(end)
    if expected is None or value.dtype != expected.dtype or not same_layout(value, expected):
        return None
    with graph.inserting_before(end):
        new = new_call(graph, norm.target, args, kwargs, end)
    replace(end, new)
    return new


def _parameter_behind(graph, norm):
    """Fuses a weight that multiplies the result, or a bias that is added to it."""
    last = _only_user(norm)
    if norm.target is group_norm or last is None or last.kwargs or writes_between(norm, last):
        return None
    if is_call(last, mul) and all(_parameter(norm, index) is None for index in _parameters[norm.target]):
        index = WEIGHT
    elif is_call(last, add) and norm.target is layer_norm and _parameter(norm, BIAS) is None:
        index = BIAS
    else:
        return None
    other = last.args[1] if last.args[0] is norm else last.args[0]
    value, own, weight = value_of(other), value_of(norm), value_of(_parameter(norm, WEIGHT))
    if other is norm or value is None or value.dtype != own.dtype or value.device != own.device:
        return None
    if index == BIAS and weight is not None and weight.dtype != value.dtype:
        return None
    if not same_numbers(value.shape, own.shape[own.dim() - len(norm.args[1]) :]):
        return None
    return _put(graph, norm, last, _with_arguments(norm, {index: other}), norm.kwargs)


def _silu_behind(graph, norm):
    if norm.target is not group_norm or norm.kwargs.get("activation", "none") != "none":
        return None
    x, dtype = norm, value_of(norm).dtype
    if dtype.itemsize == 2:  # silu is then computed in float32
        x = _only_user(norm)
        if not is_call(x, convert) or x.args[1] != torch.float32:
            return None
    found = find_activation(x)
    if found is None or found[0] != "silu" or any(user not in found[2] for user in x.users):
        return None
    end = found[1] if x is norm else _only_user(found[1])
    if x is not norm and (not is_call(end, convert) or end.args[1] != dtype) or writes_between(norm, end):
        return None
    return _put(graph, norm, end, norm.args, {**norm.kwargs, "activation": "silu"})


def _casts_around(graph, norm):
    """Fuses a cast to float32 before the norm and one back after it: the norm computes in float32 anyway."""
    wide, last = norm.args[0], _only_user(norm)
    if not is_call(wide, convert) or wide.args[1] != torch.float32 or not is_call(last, convert):
        return None
    narrow = value_of(wide.args[0])
    if narrow is None or narrow.dtype not in (torch.float16, torch.bfloat16) or last.args[1] != narrow.dtype:
        return None
    values, first = {0: wide.args[0]}, [wide]
    present = {index: _parameter(norm, index) for index in _parameters[norm.target]}
    present = {index: node for index, node in present.items() if node is not None}
    if all(is_call(node, convert) and value_of(node.args[0]).dtype == narrow.dtype for node in present.values()):
        values.update((index, node.args[0]) for index, node in present.items())
        first += present.values()
    if any(writes_between(node, last) for node in first):
        return None
    return _put(graph, norm, last, _with_arguments(norm, values), norm.kwargs)


def fold_norm(graph, norm):
    """Fuses the neighbours of `norm` into it if it is a norm without a gradient."""
    while norm is not None and norm.op == "call_function" and norm.target in _parameters:
        for step in (_parameter_behind, _silu_behind, _casts_around):
            folded = step(graph, norm)
            if folded is not None:
                break
        norm = folded
