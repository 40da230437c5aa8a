"""Finds convolutions whose results become sequences: `self.conv(x).flatten(2).transpose(1, 2)`, of an image's patches.

Torch's layout of such a result, with the channels apart in memory, stays that of the whole sequence behind it: of every sum with a
residual, and each norm copies it.
"""

import ast

import torch

from . import source_rewrite


def _is_call_of(node, name, *arguments):
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
        and not node.keywords
        and [each.value if isinstance(each, ast.Constant) else None for each in node.args] == list(arguments)
    )


def _made_sequences(function):
    """Yields the expressions x of x.flatten(2).transpose(1, 2)."""
    for node in ast.walk(function):
        if _is_call_of(node, "transpose", 1, 2) and _is_call_of(node.func.value, "flatten", 2):
            yield node.func.value.func.value


def _calls_of_modules(node, own):
    """Yields the names of the attributes of `own` that an expression calls."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            if isinstance(each.func.value, ast.Name) and each.func.value.id == own:
                yield each.func.attr


def of_sequences(module):
    """Returns the convolutions among a module's children of which its forward makes sequences."""
    found = [(name, each) for name, each in module._modules.items() if isinstance(each, torch.nn.Conv2d)]
    function = source_rewrite.node_of(type(module).forward) if found else None
    if function is None:
        return []
    own = function.args.args[0].arg
    sources = list(_made_sequences(function))
    names = {each.id for each in sources if isinstance(each, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and any(isinstance(each, ast.Name) and each.id in names for each in node.targets):
            sources.append(node.value)
    called = {name for each in sources for name in _calls_of_modules(each, own)}
    return [each for name, each in found if name in called]
