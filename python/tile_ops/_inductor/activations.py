"""The forms of relu, gelu and silu in inductor's graphs, and a search for one that starts at a node."""

import math

import torch

from .graph import add, aten, is_call

mul, div = aten.mul.Tensor, aten.div.Tensor
_commute = (add, mul)
X = "x"  # the symbol of the activation's input

_cubic = (add, X, (mul, (mul, (mul, X, X), X), 0.044715))
# An expression is X, a number, or an operator with its operands.
PATTERNS = (
    ("relu", (aten.relu.default, X)),
    ("silu", (div, X, (add, (aten.exp.default, (aten.neg.default, X)), 1))),
    ("silu", (mul, X, (aten.sigmoid.default, X))),
    ("gelu", (mul, (mul, X, 0.5), (add, (aten.erf.default, (mul, X, math.sqrt(0.5))), 1))),
    ("gelu_tanh", (mul, (mul, X, 0.5), (add, (aten.tanh.default, (mul, _cubic, math.sqrt(2 / math.pi))), 1))),
)
_most_nodes = 12


def _matches(pattern, node, x, inner):
    """Returns True if `node` computes `pattern` of `x`; adds the nodes in it to `inner`."""
    if isinstance(pattern, str):
        return node is x
    if isinstance(pattern, (int, float)):
        return isinstance(node, (int, float)) and math.isclose(node, pattern, rel_tol=1e-12)
    if not is_call(node, pattern[0]) or node.kwargs or len(node.args) != len(pattern) - 1:
        return False
    orders = [node.args, node.args[::-1]] if pattern[0] in _commute else [node.args]
    for order in orders:
        found = {node}
        if all(_matches(sub, operand, x, found) for sub, operand in zip(pattern[1:], order)):
            inner |= found
            return True
    return False


def find_activation(x):
    """Returns (name, last node, all nodes) of an activation of `x` of which only the last node is used elsewhere."""
    reached, todo = [], list(x.users)
    while todo and len(reached) < _most_nodes:
        node = todo.pop(0)
        if node.op != "call_function" or node in reached:
            continue
        reached.append(node)
        todo += node.users
    for last in reached:
        for name, pattern in PATTERNS:
            inner: set[torch.fx.Node] = set()
            if _matches(pattern, last, x, inner):
                if all(user in inner for node in inner if node is not last for user in node.users):
                    return name, last, inner
    return None
