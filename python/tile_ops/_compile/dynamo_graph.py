"""Nodes of the graphs of Dynamo and of exported programs, whose functions are not yet taken apart into operators."""

import operator

import torch

from . import ladder, report
from .compat import is_made_of_tensors


def example(node):
    """Returns the fake tensor of a node, or what else it or an argument that is no node stands for."""
    return node.meta.get("example_value", node.meta.get("val")) if isinstance(node, torch.fx.Node) else node


def is_tensor(value):
    """Returns True for a plain tensor with strides: neither a subclass made of others, nor one that is nested or sparse."""
    plain = isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_nested
    return plain and not is_made_of_tensors(value)


_MODULES = (torch, torch.nn.functional, operator)


def name_of(node):
    """Returns the name of the function or operator of torch, or the method, that a node calls; "" if it calls none of these."""
    target = node.target
    if node.op == "call_method":
        return target
    if isinstance(target, torch._ops.OpOverload):
        library, name = target._schema.name.split("::")
        return name if library == "aten" else ""
    name = getattr(target, "__name__", "") if node.op == "call_function" else ""
    return name if any(getattr(each, name, None) is target for each in _MODULES if name) else ""


def arguments(node, schema):
    """Returns the arguments of a call by their names in a schema that it has."""
    given = schema.arguments
    values = {**{each.name: value for each, value in zip(given, node.args)}, **node.kwargs}
    return {each.name: values.get(each.name, each.default_value) for each in given}


def is_transformed(graph):
    """Returns True if functions of torch.func, such as vmap, begin in a graph: its tensors then have other axes than it says."""
    return any("_nesting" in str(node.target) for node in graph.nodes if node.op == "call_function")


def set_example(node, make):
    """Makes make() the fake tensor of a node, which has one already or will have the first of its own."""
    fake = next(each for each in map(example, node.all_input_nodes) if isinstance(each, torch.Tensor))
    with torch.no_grad(), fake.fake_mode:
        node.meta["val" if "val" in node.meta else "example_value"] = make()


def new_call(graph, target, args, like, **kwargs):
    """Returns a new call of a function, or of a method by its name, with the place in the source of the node `like`."""
    is_method = isinstance(target, str)
    node = graph.create_node("call_method" if is_method else "call_function", target, args, kwargs)
    node.meta.update({key: each for key, each in like.meta.items() if key not in ("example_value", "tensor_meta")})
    values, named = torch.fx.node.map_arg((args, kwargs), example)
    set_example(node, lambda: (getattr(torch.Tensor, target) if is_method else target)(*values, **named))
    return node


def graphs_of(gm):
    """Returns the modules of a graph and of the graphs in it."""
    return [module for module in gm.modules() if isinstance(module, torch.fx.GraphModule)]


def change_all(gm, targets, change, options, what):
    """Calls change(module, node) with each call of one of the targets; after an error the call stays as it is.

    change returns True if it changed the graph, and raises errors before it does. what: the calls, for a warning.
    """
    for module in graphs_of(gm):
        found = [node for node in module.graph.nodes if node.op == "call_function" and node.target in targets]
        if not found or is_transformed(module.graph):
            continue
        changed = False
        for node in found:
            try:
                changed = change(module, node) or changed
            except Exception as error:  # this runs before the graphs that ladder.py guards
                ladder.reason_to_stay(error, report.place_of(node.meta.get("stack_trace")), options, what)
        if changed:
            module.graph.lint()
            module.recompile()
