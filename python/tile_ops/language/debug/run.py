"""debug: runs a launch of a kernel as Python."""

import dataclasses
import inspect
import itertools

import torch

from ..arguments import Flattener, blocks_of, needs_int64
from ..core.debugging import debugging
from ..core import dtypes
from .session import Session
from .values import DebugList

_MOST = 2**31 - 1


class _Memory:
    """CPU copies of the tensors of a launch. Those that were written are copied back."""

    def __init__(self):
        self._copies = []

    def of(self, tensor):
        tensor = tensor.detach()
        if tensor.device.type == "cpu":
            return tensor
        with torch.inference_mode(False):  # tensors made in inference mode would not count writes
            copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
            copy.copy_(tensor)
        self._copies.append((tensor, copy, copy._version))
        return copy

    def write_back(self):
        for tensor, copy, version in self._copies:
            if copy._version != version:
                tensor.copy_(copy)


def _native(session, memory, structure, leaves):
    """Returns the value that the kernel's Python sees for a structured argument."""
    kind, *rest = structure
    if kind == "constant":
        return rest[1]
    if kind == "scalar":
        value = next(leaves)
        if isinstance(value, tuple):
            return session.scalar(value[0], dtypes.int64)
        if isinstance(value, bool):
            return session.scalar(value, dtypes.bool_)
        return session.scalar(value, dtypes.float32 if isinstance(value, float) else dtypes.int32)
    if kind == "array":
        wide, extents, strides, dtype = rest
        tensor = memory.of(next(leaves))
        wide = wide or needs_int64(tensor)
        return session.array(tensor.view(dtype.torch) if dtype else tensor, wide, extents, strides)
    if kind == "record":
        values = [_native(session, memory, each, leaves) for each in rest[1:]]
        names = [field.name for field in dataclasses.fields(rest[0])]
        return rest[0](**dict(zip(names, values)))
    made = [_native(session, memory, each, leaves) for each in rest]
    if kind == "tuple":
        return tuple(made)
    for each in made:  # one index width for all, as in a launch
        each.wide = any(other.wide for other in made)
    return DebugList(made)


def _by_name(kernel, values):
    """Returns the number of positional values, and the keyword-only values by name."""
    parameters = inspect.signature(kernel._pyfunc).parameters.values()
    named = {each.name: value for each, value in zip(parameters, values) if each.kind is each.KEYWORD_ONLY}
    return len(values) - len(named), named


def debug(kernel, grid, arguments):
    """Runs the kernel's Python for each block in order, the first axis fastest. arguments: all arguments of the kernel."""
    blocks = blocks_of(grid, arguments)
    if min(blocks) < 0 or max(blocks) >= 2**31:  # as in a launch
        limit = "least 0" if min(blocks) < 0 else f"most {2**31 - 1}"
        raise ValueError(f"debug of {kernel.__name__}: the grid is {blocks}; an axis must be at {limit}")
    kernel._check_written(tuple(arguments))
    session, memory, values = Session(kernel, blocks), _Memory(), []
    for position, (value, letter) in enumerate(zip(arguments, kernel.letters)):
        flattener = Flattener(kernel._argument_names[position])
        structure = flattener.structure(value, kernel._annotations[position])
        leaves = [(leaf,) if each == "w" else leaf for each, leaf in zip(flattener.letters, flattener.leaves)]
        values.append(_native(session, memory, structure, iter(leaves)))
    outer, debugging.session = debugging.session, session
    try:
        body = session.bodies.of(kernel._pyfunc)
        positional, named = _by_name(kernel, values)
        for z, y, x in itertools.product(*map(range, reversed(blocks))):
            session.block = (x, y, z)
            body(*values[:positional], **named)
    finally:
        debugging.session = outer
    memory.write_back()
