"""Queries of the inductor passes on graphs and their nodes."""

import operator

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten
add = aten.add.Tensor
convert = torch.ops.prims.convert_element_type.default


def value_of(node):
    """Returns the fake tensor of a node, or None."""
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def same_numbers(a, b):
    return len(a) == len(b) and all(statically_known_true(x == y) for x, y in zip(a, b))


def same_layout(a, b):
    return same_numbers(a.shape, b.shape) and same_numbers(a.stride(), b.stride())


def broadcasts_to(shape, other):
    """Returns True if `shape` broadcasts to `other` without making it larger."""
    if len(shape) > len(other):
        return False
    tail = other[len(other) - len(shape) :]
    return all(statically_known_true(x == 1) or statically_known_true(x == y) for x, y in zip(shape, tail))


def is_call(node, target):
    return isinstance(node, torch.fx.Node) and node.op == "call_function" and node.target is target


def operands_of_add(node):
    """Returns the two tensors that a node adds, or None if it does something else."""
    if not is_call(node, add) or node.kwargs.get("alpha", 1) != 1 or len(node.args) != 2:
        return None
    x, y = node.args
    return None if x is y or value_of(x) is None or value_of(y) is None else (x, y)


def writes_memory(node):
    """Returns True if a node may write into memory that other nodes use: no node may be moved across it."""
    if node.op != "call_function":
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    return isinstance(node.target, torch._ops.HigherOrderOperator) and "functional" not in node.target.name()


def writes_between(first, last):
    node = first.next
    while node is not last:
        if node.op == "root" or writes_memory(node):
            return True
        node = node.next
    return False


def replace(node, new):
    """Replaces all uses of `node` by `new` and removes nodes without users."""
    node.replace_all_uses_with(new)
    erase_unused(node)


def new_call(graph, target, args, kwargs, like):
    """Returns a new call whose result is like that of the node `like`."""
    node = graph.call_function(target, args, kwargs)
    node.meta.update(like.meta)
    keep_strides(node)
    return node


def keep_strides(node):
    """Makes inductor pass an operator's arguments with the strides that they have in the graph."""

    def values(tree):
        return torch.fx.node.map_arg(tree, lambda node: node.meta.get("val"))

    node.meta["eager_input_vals"] = values(node.args), values(node.kwargs)


def erase_unused(node):
    if node.users or node._erased or node.op != "call_function" or node.is_impure():
        return
    inputs = node.all_input_nodes
    node.graph.erase_node(node)
    for each in inputs:
        erase_unused(each)


def part(tuple_node, index):
    """Returns the getitem nodes of one result of an operator with several."""
    return [user for user in tuple_node.users if user.target is operator.getitem and user.args[1] == index]


def fake_result(target, args, kwargs):
    """Returns the fake value of a new node."""

    def values(tree):
        return torch.fx.node.map_arg(tree, lambda node: node.meta["val"])

    args, kwargs = values(args), values(kwargs)
    fake = next(each for each in args if isinstance(each, torch.Tensor))
    with fake.fake_mode:
        return target(*args, **kwargs)
