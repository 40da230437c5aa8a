"""Replaces a sum that tile::rms_norm and other nodes use by tile::add_rms_norm, in an inductor graph."""

import operator

import torch

from .graph import (
    aten,
    erase_unused,
    fake_result,
    keep_strides,
    operands_of_add,
    part,
    replace,
    same_layout,
    same_numbers,
    value_of,
    writes_between,
)

_norms = {
    torch.ops.tile.rms_norm.default: torch.ops.tile.add_rms_norm.default,
    torch.ops.tile._rms_norm_saving.default: torch.ops.tile._add_rms_norm_saving.default,
}
_views = (aten.view.default, aten.reshape.default, aten.permute.default, aten.unsqueeze.default, aten.squeeze.dim)
_products = (aten.mm.default, aten.bmm.default, aten.addmm.default, aten.convolution.default)


def _in_memory(node):
    """Returns True if a tensor is in memory anyway. Inductor would fuse the sum into the kernel of any other tensor."""
    while node.op == "call_function" and (node.target in _views or node.target is operator.getitem):
        node = node.args[0]
    return node.op in ("placeholder", "get_attr") or (
        isinstance(node.target, torch._ops.OpOverload) and (node.target.namespace == "tile" or node.target in _products)
    )


def _position(graph, norm, total):
    """Returns the node before which add_rms_norm can be inserted: after its inputs, before all users of the sum."""
    position = {node: i for i, node in enumerate(graph.nodes)}
    if all(position[user] >= position[norm] for user in total.users):
        return norm
    if all(position[needed] < position[total] for needed in norm.all_input_nodes if needed is not total):
        return total
    return None


def fold_sum(graph, norm):
    """Fuses the sum into `norm` if that is an rms_norm of a sum that other nodes use too."""
    if norm.op != "call_function" or norm.target not in _norms or norm.kwargs:
        return
    total = norm.args[0]
    operands = operands_of_add(total)
    if operands is None or len(total.users) < 2 or list(norm.args).count(total) != 1:
        return
    values = [value_of(each) for each in (*operands, total)]
    if len({(value.dtype, value.device) for value in values}) != 1:
        return
    # The sum has the layout of the first operand.
    operands = next((order for order in (operands, operands[::-1]) if same_layout(value_of(order[0]), values[2])), None)
    if operands is None or not all(same_numbers(value.shape, values[2].shape) for value in values):
        return
    if not all(_in_memory(each) for each in operands):
        return
    before = _position(graph, norm, total)
    if before is None or writes_between(total, norm):
        return
    target = _norms[norm.target]
    with graph.inserting_before(before):
        new = graph.call_function(target, (*operands, *norm.args[1:]))
        new.meta.update(norm.meta)
        new.meta["val"] = fake_result(target, new.args, {})
        keep_strides(new)
        out = graph.call_function(operator.getitem, (new, 0))
        sum_ = graph.call_function(operator.getitem, (new, 1))
        sum_.meta.update(total.meta)
        rstd = None
        if norm.target is not torch.ops.tile.rms_norm.default:
            rstd = graph.call_function(operator.getitem, (new, 2))
    total.replace_all_uses_with(sum_)
    if rstd is None:
        out.meta["val"] = norm.meta["val"]
        replace(norm, out)
    else:
        for index, result in ((0, out), (1, rstd)):
            result.meta["val"] = new.meta["val"][2 * index]
            for old in part(norm, index):
                result.meta.update(old.meta)
                replace(old, result)
    erase_unused(total)
