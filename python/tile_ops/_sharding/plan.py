"""Chooses the placements that an operator runs on: the cheapest that its rule allows for one call."""

import dataclasses
import itertools
import math

from torch.distributed.tensor import Partial, Replicate, Shard

from . import signature

# The start of a collective counts as moving this many bytes.
LATENCY = 1 << 16


@dataclasses.dataclass
class Plan:
    """Describes how one call runs.

    inputs: placements by argument name. once: for some arguments, the mesh dimensions on which only the first device adds it.
    outputs: placements of each result. sources: the known global extents of each result. splits: the mesh dimensions that
    split each axis. special: the function that runs in place of the operator, or None. resolved: the axes of this call.
    """

    inputs: dict
    once: dict
    outputs: list
    sources: list
    splits: dict
    special: object
    resolved: object


def same(now, want):
    """Returns True if placements are equal and of one class. A strided shard can compare equal to a Shard, but differs."""
    return type(now) is type(want) and now == want


def redistributed(value, mesh, placements):
    """Returns a DTensor with other placements, without autograd.

    The tensor is detached first, since torch 2.11 refuses to redistribute one that requires grad where grad mode is off.
    """
    return value.detach().redistribute(mesh, placements)


def _transition(now, want, size, n):
    """Returns the cost of a redistribution on a mesh dimension of n devices: the bytes moved, and LATENCY per collective."""
    if same(now, want):
        return 0.0
    moved_bytes = size * (n - 1) / n
    if now.is_replicate():
        return math.inf if want.is_partial() else 0.0
    if now.is_partial():
        if want.is_replicate():
            return 2 * (LATENCY + moved_bytes)
        return math.inf if want.is_partial() else LATENCY + moved_bytes
    if want.is_replicate():
        return LATENCY + moved_bytes
    return math.inf if want.is_partial() else LATENCY + moved_bytes / n


def _shard_of(placements, dim):
    return any(placement.is_shard(dim) for placement in placements)


class Planner:
    """Enumerates the placements that a rule allows for a call."""

    def __init__(self, call, rule):
        self.call, self.rule = call, rule
        self.n = call.mesh.ndim
        self.sizes = [call.mesh.size(at) for at in range(self.n)]
        self.now = {name: call.placements(name, rule.shared) for name in call.tensors}
        text = rule.text(call)
        known = signature.parsed(text)
        shapes = {name: tuple(call[name].shape) for name in call.tensors}
        missing = [name for name in call.tensors if name not in known.arguments]
        if missing:
            raise ValueError(
                f"{call.name}: its sharding {text!r} does not name the axes of {missing[0]!r}; add {missing[0]}[...]"
            )
        returns = len(call.func._schema.returns)
        if len(known.results) < returns:
            raise ValueError(
                f"{call.name}: its sharding {text!r} has {len(known.results)} results, but the operator returns {returns}; add "
                "the missing ones, saved results too"
            )
        lengths = {name: of(call) for name, of in rule.lengths.items()}
        self.at = signature.Resolved(known, shapes, lengths)
        self.results = known.results[:returns]

    def axes(self):
        """Returns the axes that may be split in this call."""
        return [axis for axis in self.at.extents if self.rule.allows(self.call, axis, self.at)]

    def _fits(self, axis, count):
        """Returns True if `count` devices can share the axis."""
        multiples = self.at.multiples.get(axis)
        if multiples:
            return all(extent % count == 0 for extent in multiples)
        if self.at.extents[axis] >= count:
            return True
        for name, dimensions in self.at.axes.items():  # fewer elements than devices: only if already split so
            for dim, other in enumerate(dimensions):
                if other == axis and self.at.shapes[name][dim] != 1 and _shard_of(self.now[name], dim):
                    return True
        return False

    def _dim(self, name, axis):
        """Returns the dimension of an argument that the axis names, or None."""
        for dim, other in enumerate(self.at.axes.get(name, ())):
            if other == axis and self.at.shapes[name][dim] != 1:
                return dim
        return None

    def input(self, name, axis):
        """Returns an argument's placement if the axis is split, and whether only the first device adds it."""
        if axis is None:
            return Replicate(), False
        dim = self._dim(name, axis)
        if dim is not None:
            return Shard(dim), False
        axes = self.at.signature.arguments[name]
        return Replicate(), self.at.within(axis, axes.once)

    def output(self, axes, axis):
        """Returns a result's placement if the axis is split."""
        if axis is None:
            return Replicate()
        like = axes.like or axes.gradient_of
        if like:
            if self.call[like] is None:
                return Replicate()
            placement, once = self.input(like, axis)
            if placement.is_shard() or once or axes.like:
                return placement
            return Partial()
        names = self.at.result_axes(axes)
        if axis in names:
            return Shard(names.index(axis))
        for word, kind in axes.sums:
            if self.at.within(axis, (word,)):
                return Partial(kind)
        return Replicate()

    def _cost(self, chosen, written):
        cost, changes = 0.0, 0
        for name, now in self.now.items():
            value = self.call[name]
            size = value.numel() * value.element_size()
            for at, axis in enumerate(chosen):
                want, once = self.input(name, axis)
                if once and same(now[at], Partial()):  # a partial sum stays one
                    continue
                if not same(now[at], want):
                    changes += 1
                    cost += math.inf if name in written else _transition(now[at], want, size, self.sizes[at])
        return cost, changes

    def best(self):
        """Returns the Plan of least communication. Raises ValueError if an argument that is written would have to move."""
        axes = self.axes()
        written = set(self.call.written)
        best, least = None, (math.inf, 0)
        for chosen in itertools.product([*axes, None], repeat=self.n):
            counts = {}
            for at, axis in enumerate(chosen):
                if axis is not None:
                    counts[axis] = counts.get(axis, 1) * self.sizes[at]
            if not all(self._fits(axis, count) for axis, count in counts.items()):
                continue
            if self._mixed(chosen):
                continue
            cost = self._cost(chosen, written)
            if cost < least:
                best, least = chosen, cost
        if best is None:
            where = ", ".join(f"{name!r} on {list(self.now[name])}" for name in self.call.tensors if name in written)
            raise ValueError(
                f"{self.call.name}: it writes into {where} and cannot run on these placements; redistribute, or call the "
                "operator that returns new tensors"
            )
        return self._plan(best)

    def _mixed(self, chosen):
        """Returns True if a result would be a partial sum on one mesh dimension and a partial maximum on another."""
        for _, axes in self.results:
            kinds = {p.reduce_op for p in (self.output(axes, axis) for axis in chosen) if p.is_partial()}
            if len(kinds) > 1:
                return True
        return False

    def _plan(self, chosen):
        inputs, once = {}, {}
        for name, now in self.now.items():
            wanted = [self.input(name, axis) for axis in chosen]
            inputs[name] = tuple(
                now[at] if alone and same(now[at], Partial()) else placement for at, (placement, alone) in enumerate(wanted)
            )
            dims = [at for at, (_, alone) in enumerate(wanted) if alone and not same(now[at], Partial())]
            if dims:
                once[name] = dims
        splits = {}
        for at, axis in enumerate(chosen):
            if axis is not None:
                splits.setdefault(axis, []).append(at)
        special = next(
            (run for word, run in self.rule.special.items() if any(self.at.within(axis, (word,)) for axis in splits)), None
        )
        outputs = [tuple(self.output(axes, axis) for axis in chosen) for _, axes in self.results]
        sources = [self._source(axes) for _, axes in self.results]
        return Plan(inputs, once, outputs, sources, splits, special, self.at)

    def _source(self, axes):
        """Returns the known global extents of a result: those of an argument, or of its axes (None if unknown)."""
        like = axes.like or axes.gradient_of
        if like:
            return tuple(self.call[like].shape) if self.call[like] is not None else None
        return [None if name in self.at.multiples else self.at.extents.get(name) for name in self.at.result_axes(axes)]


def global_layout(local, placements, mesh, source):
    """Returns the global shape and strides of a result, from those of its local shard."""
    shape = list(local.shape)
    for dim in range(local.dim()):
        count = math.prod(mesh.size(at) for at, placement in enumerate(placements) if placement.is_shard(dim))
        if _shard_of(placements, dim):
            known = source[dim] if source is not None and dim < len(source) else None
            shape[dim] = local.shape[dim] * count if known is None else known
    if shape == list(local.shape):
        return tuple(shape), tuple(local.stride())
    strides, step = [0] * len(shape), 1
    for dim in sorted(range(len(shape)), key=lambda dim: (local.stride(dim), -dim)):
        if local.stride(dim) == 0 and local.shape[dim] != 1:
            continue
        strides[dim] = step
        step = step * max(shape[dim], 1)
    return tuple(shape), tuple(strides)
