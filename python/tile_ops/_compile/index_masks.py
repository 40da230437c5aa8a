"""Masks of attention that places of query and key decide: they become options, with which kernels skip what is hidden.

A mask is a conjunction. Parts that only depend on indices (index_values.py) and that together are a window, causal or not, become
options; the other parts stay a mask, which may be smaller.
"""

import dataclasses

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true as known

from .._inductor.graph import broadcasts_to, erase_unused, fake_result, value_of
from .active import Refused
from .conditions import QUERY, Box, both, either, index_of, window_of
from .index_values import VIEWS, Number, Values, broadcast, given, name_of, shape_of

aten = torch.ops.aten
INDICES = "b", "h", QUERY, "k"
HIDDEN = -1e30  # a smaller number leaves nothing of a probability, if its row has another key


@dataclasses.dataclass
class Seen:
    """The keys that each query sees: by options of our attention, and by bool tensors, which all have to show a key.

    masks: (node, the axes of it that are indices, in their order).
    """

    options: dict
    masks: list


def _box(query, key):
    sizes = (*query.shape[:3], key.shape[2])
    return Box({name: (0, size - 1) for name, size in zip(INDICES, sizes)})


def _options(condition, box, query, key):
    """Returns the options that say what a condition of the places of a box does; raises Refused."""
    why = None
    found = []
    for align, shift in (("top_left", 0), ("bottom_right", key.shape[2] - query.shape[2])):
        try:
            behind, ahead = window_of(condition, box, shift)
        except Refused as error:
            why = error
            continue
        before, after = ahead, None if behind is None else -behind
        if before is None and after is None:
            return {"is_causal": False, "causal_align": align, "window": [-1, -1]}
        if (before is None or before >= 0) and (after is None or after >= 0):
            found.append((after != 0, align, before, after))
        why = Refused("a window beside the query's own place")
    if not found:
        raise why
    is_wide, align, before, after = min(found, key=lambda each: each[0])
    window = [-1 if before is None else before, -1 if after is None or not is_wide else after]
    return {"is_causal": not is_wide, "causal_align": align, "window": window}


class _Parts:
    """Takes a mask apart into a condition of indices and bool tensors."""

    def __init__(self, query, key):
        self.query, self.key = query, key
        self.box, self.values = _box(query, key), Values()

    def of(self, node, at):
        """Returns (condition, masks) of a bool tensor at some indices; raises Refused."""
        condition = self.condition(node, at)
        if condition is not None:
            return condition, []
        try:
            return self.inner(node, at)
        except Refused:
            return True, [self.mask(node, at)]

    def condition(self, node, at):
        try:
            condition = self.values.at(node, at, self.box)
            if isinstance(condition, Number):
                return None
            _options(condition, self.box, self.query, self.key)
            return condition
        except Refused:
            return None

    def inner(self, node, at):
        name = name_of(node)
        if name in VIEWS:
            return self.of(node.args[0], VIEWS[name](node, given(node), at, self.box, self.values))
        if name not in ("bitwise_and", "logical_and"):
            raise Refused("no conjunction")
        condition, masks = True, []
        for each in node.args:
            own, others = self.of(each, broadcast(shape_of(each), at, self.box))
            condition, masks = both(condition, own, self.box), masks + others
        return condition, masks

    def mask(self, node, at):
        """Returns a tensor as a mask of Seen; raises Refused if it is not read at the indices themselves."""
        value = value_of(node)
        if value is None or value.dtype != torch.bool:
            raise Refused("a mask that is not bool")
        axes = []
        for size, index in zip(value.shape, at):
            plain = len(index.factors) == 1 and index.factors[0][1] == 1 and known(index.number == 0)
            name = index.factors[0][0] if plain else None
            if plain and name in INDICES and name not in axes and known(size == self.box.ranges[name][1] + 1):
                axes.append(name)
            elif not index.factors and known(size == 1):
                axes.append(None)
            else:
                raise Refused("a mask at computed places")
        return node, axes


def _places(node, query, key):
    """Returns the indices of a mask; raises Refused."""
    shape = shape_of(node)
    if not broadcasts_to(shape, (*query.shape[:3], key.shape[2])):
        raise Refused("a mask of another shape")
    return broadcast(shape, [index_of(name) for name in INDICES], _box(query, key))


def of_bool(mask, query, key):
    """Returns the Seen of a bool mask, a node, or None if it stays as it is. query, key: fake tensors."""
    try:
        parts = _Parts(query, key)
        condition, masks = parts.of(mask, _places(mask, query, key))
        if any(node is mask for node, _ in masks):
            return None
        return Seen(_options(condition, parts.box, query, key), masks)
    except Refused:
        return None


def of_numbers(bias, query, key):
    """Returns the Seen of a bias that is 0 or hides a key, as of_bool."""
    try:
        box = _box(query, key)
        value = Values().at(bias, _places(bias, query, key), box)
        if not isinstance(value, Number) or any(each.factors for _, each in value.cases):
            return None
        shown, numbers = False, [each.number for _, each in value.cases]
        if any(not isinstance(each, (int, float)) or not (each == 0 or each <= HIDDEN) for each in numbers):
            return None
        for condition, each in value.cases:
            if each.number == 0:
                shown = either(shown, condition, box)
        options = _options(shown, box, query, key)
        # If a row's numbers are all the same finite one, a softmax shows all of its keys; options would hide them.
        finite = any(each != 0 and each != -float("inf") for each in numbers)
        return None if finite and not known(query.shape[2] <= key.shape[2]) else Seen(options, [])
    except Refused:
        return None


def _ordered(node, axes, make):
    """Returns a mask that broadcasts to [batch, heads, query, key], of which `axes` are the indices."""
    rank = len(axes)
    if rank <= 4 and all(axis in (None, name) for axis, name in zip(axes, INDICES[4 - rank :])):
        return node
    alone = [dim for dim, axis in enumerate(axes) if axis is None]
    order = sorted((dim for dim, axis in enumerate(axes) if axis is not None), key=lambda dim: INDICES.index(axes[dim]))
    if [*alone, *order] != list(range(rank)):
        node = make(aten.permute.default, (node, [*alone, *order]))
    for _ in alone:
        node = make(aten.select.int, (node, 0, 0))
    for dim, name in enumerate(INDICES):
        if name not in axes:
            node = make(aten.unsqueeze.default, (node, dim))
    return node


class Masks:
    """The masks of a graph, each analysed once. new(target, args, like): returns a new node like another."""

    def __init__(self, graph, new):
        self.graph, self.new, self.found = graph, new, {}

    def of(self, node, bias, mask, query, key):
        """Returns (options, mask or None) that say what the bias of a call of attention does, or None if it stays.

        mask: the bool mask that it was made of, if there is one. A mask is made of new nodes before the call.
        """
        place = bias, tuple(map(str, (*query.shape[:3], key.shape[2])))
        if place not in self.found:
            seen = of_numbers(bias, query, key) if mask is None else of_bool(mask, query, key)
            self.found[place] = None if seen is None else (seen.options, self._joined(seen.masks, node))
        return self.found[place]

    def _joined(self, masks, node):
        def make(target, args):
            return self.new(self.graph, target, args, {}, node, fake_result(target, args, {}))

        joined = None
        with self.graph.inserting_before(node):
            for each, axes in masks:
                each = _ordered(each, axes, make)
                joined = each if joined is None else make(aten.bitwise_and.Tensor, (joined, each))
        return joined

    def erase_unused(self):
        for found in self.found.values():
            if found is not None and found[1] is not None:
                erase_unused(found[1])
