"""Products of one left side that meet in elementwise operators become one call of both sums: a pass over FX graphs.

silu(x @ w1) * (x @ w2) is then one launch, which reads x once and need not store the two products.
"""

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .._products import PAIR
from .._inductor.graph import erase_unused, fake_result, keep_strides, same_numbers, value_of, writes_between
from . import choice

aten = torch.ops.aten

_library = torch.library.Library("tile_compile", "DEF")
# Returns [2, ...]: input @ other and input @ second in one tensor, because a template of inductor has one result. Graphs that are
# compiled run the product of templates.py instead of this function.
_library.define("two_products(Tensor input, Tensor other, Tensor second) -> Tensor")
_library.impl(
    "two_products", lambda input, other, second: torch.stack([input @ other, input @ second]), "CompositeExplicitAutograd"
)
two_products = torch.ops.tile_compile.two_products.default

_PRODUCTS = (aten.mm.default, aten.addmm.default, aten.bmm.default)
MOST_STEPS = 64  # between a product and the elementwise operator where it meets the other one


def is_elementwise(node):
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.pointwise in node.target.tags


def is_view(node):
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def is_product(node, fallbacks=()):
    return node.op == "call_function" and node.target in _PRODUCTS and node.target not in fallbacks and not node.kwargs


def _same(a, b):
    """Returns True if two nodes are the same or equal views of one: graphs of inference have a view for each user."""
    if not isinstance(a, torch.fx.Node) or not isinstance(b, torch.fx.Node):
        return a == b
    if a is b:
        return True
    alike = is_view(a) and a.target is b.target and len(a.args) == len(b.args) and not a.kwargs and not b.kwargs
    return alike and all(map(_same, a.args, b.args))


def _elementwise_behind(node):
    """Returns the elementwise operators that a product reaches through others and through views of as many elements."""
    elements, found, seen, waiting = value_of(node).numel(), set(), set(), [node]
    while waiting and len(seen) < MOST_STEPS:
        for user in waiting.pop(0).users:
            made = value_of(user)
            if user in seen or made is None or not statically_known_true(made.numel() == elements):
                continue
            seen.add(user)
            if is_elementwise(user):
                found.add(user)
            elif not is_view(user):
                continue
            waiting.append(user)
    return found


def _fit(first, second):
    """Returns True if one call can compute both products."""
    if first.target is not second.target or not _same(first.args[-2], second.args[-2]):
        return False
    one, two = value_of(first.args[-1]), value_of(second.args[-1])
    if one is None or two is None or one.dtype != two.dtype or not same_numbers(one.shape, two.shape):
        return False
    results = value_of(first), value_of(second)
    return all(each is not None and each.dtype == one.dtype for each in results)


def _stays(node):
    """Returns True if a node has effects or draws random numbers, whose order is the program's."""
    tags = getattr(node.target, "tags", ())
    return node.is_impure() or torch.Tag.nondeterministic_seeded in tags


def _needed_before(first, wanted):
    """Returns what computes `wanted` behind the node `first`, in order; None if that depends on `first` or has to stay."""
    between, node = {}, first.next
    while node is not wanted.graph._root:
        between[node] = len(between)
        node = node.next
    found, waiting = set(), [wanted]
    while waiting:
        node = waiting.pop()
        if node is first:
            return None
        if node in between and node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return None if any(map(_stays, found)) else sorted(found, key=between.get)


def _new(graph, target, args, like):
    node = graph.call_function(target, args)
    node.meta.update({key: each for key, each in like.meta.items() if key not in ("tensor_meta", "eager_input_vals")})
    node.meta["val"] = fake_result(target, args, {})
    return node


def _part(graph, pair, index, product):
    made = _new(graph, aten.select.int, (pair, 0, index), product)
    if len(product.args) == 3:  # addmm
        made = _new(graph, aten.add.Tensor, (made, product.args[0]), product)
    product.replace_all_uses_with(made)
    erase_unused(product)


def _join(first, second):
    """Puts both products into one call where the first one is; returns False if something forbids that."""
    needed = _needed_before(first, second.args[-1])
    if needed is None or writes_between(first, second):
        return False
    for node in needed:
        first.prepend(node)
    graph = first.graph
    with graph.inserting_before(first):
        pair = _new(graph, two_products, (*first.args[-2:], second.args[-1]), first)
        keep_strides(pair)
        _part(graph, pair, 0, first)
    with graph.inserting_before(second):
        _part(graph, pair, 1, second)
    return True


def join_all(gm, compile):
    """Joins the pairs of products in a graph that choice.py wants as ours; returns how many."""
    products = [node for node in gm.graph.nodes if is_product(node, compile.fallbacks)]
    count = 0
    while products:
        first = products.pop(0)
        partners = [each for each in products if _fit(first, each)]
        if not partners or not choice.is_ours(compile, choice.product(*map(value_of, first.args[-2:])), PAIR):
            continue
        behind = _elementwise_behind(first)
        for second in partners:
            if behind & _elementwise_behind(second) and _join(first, second):
                products.remove(second)
                count += 1
                break
    if count:
        gm.graph.lint()
        gm.recompile()
    return count
