"""Defines torch operators for launches: one per kernel, constants, argument kinds and written arguments, which the
schema lists."""

import threading

import torch

_NAMESPACE = "tile_launch"
_made = {}  # (kernel's id, constants and leaves, what is written): (operator, kernel); keeping it keeps its id unique
_lock = threading.Lock()
_library = None


class Leaf:
    """Marks a tensor or number that is passed when the graph runs. kind: "Tensor", "SymInt" or "float"."""

    def __init__(self, kind):
        self.kind = kind

    def __eq__(self, other):
        return isinstance(other, Leaf) and self.kind == other.kind

    def __hash__(self):
        return hash(self.kind)


def rebuilt(known, leaves):
    """Returns the arguments of a launch: `known` with each Leaf replaced by the next of `leaves`, an iterator."""
    if isinstance(known, Leaf):
        return next(leaves)
    if type(known) in (tuple, list):
        return type(known)([rebuilt(each, leaves) for each in known])
    return known


def hashed(known):
    """Returns a hashable key of `known`. It contains types, because 1, 1.0 and True compare equal, and so do 0.0 and -0.0."""
    if type(known) in (tuple, list):
        return (type(known), *map(hashed, known))
    if isinstance(known, Leaf):
        return known
    return type(known), known.hex() if type(known) is float else known


def leaves_of(known):
    """Returns the leaves in order."""
    if isinstance(known, Leaf):
        return [known]
    return [leaf for each in known for leaf in leaves_of(each)] if type(known) in (tuple, list) else []


def operator_of(kernel, known, written):
    """Returns the operator that launches the kernel. It takes the leaves, then the three axes of the grid.

    written: for each argument, whether the kernel writes an array in it.
    """
    key = (id(kernel), hashed(known), written)
    with _lock:
        if key not in _made:
            _made[key] = (_define(kernel, known, written, len(_made)), kernel)
        return _made[key][0]


def _define(kernel, known, written, number):
    global _library
    _library = _library or torch.library.Library(_NAMESPACE, "FRAGMENT")
    name, parts = f"{kernel.__name__.strip('<>')}_{number}", []
    for argument, its in zip(known, written):
        for leaf in leaves_of(argument):
            alias = f"(a{len(parts)}!)" if its and leaf.kind == "Tensor" else ""
            parts.append(f"{leaf.kind}{alias} p{len(parts)}")
    text = ", ".join([*parts, "SymInt x", "SymInt y", "SymInt z"])
    _library.define(f"{name}({text}) -> ()", tags=(torch.Tag.pt2_compliant_tag,))

    def run(*given):
        kernel.launch(tuple(given[-3:]), *rebuilt(known, iter(given[:-3])))

    for backend in ("CPU", "CUDA"):
        _library.impl(name, run, backend)
    torch.library.register_fake(f"{_NAMESPACE}::{name}", lambda *given: None, lib=_library)
    return getattr(getattr(torch.ops, _NAMESPACE), name).default


def with_stand_ins(known, tensors):
    """Returns the arguments of a launch with a value for each Leaf. tensors: stand-ins for the tensors passed."""
    tensors = iter(tensors)
    values = [next(tensors) if leaf.kind == "Tensor" else 1.5 if leaf.kind == "float" else 1 for leaf in leaves_of(known)]
    return tuple(rebuilt(known, iter(values)))


def written_by(kernel, known, tensors):
    """Returns for each argument whether a launch writes an array in it. tensors: stand-ins for the tensors passed."""
    return tuple(kernel._written(with_stand_ins(known, tensors)))
