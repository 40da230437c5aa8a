"""Flattens launch arguments that are not plain tensors or numbers into leaves, which are passed at run time, and a
structure, which is a compile-time constant; and rebuilds them as values of the kernel."""

import dataclasses
import enum
import types
import typing

from .arrays import bits_dtype, guarded_tensor, tensor_of
from .core import dtypes
from .core.annotations import ArrayAnnotation, ConstantAnnotation, ListAnnotation, ScalarAnnotation, note_of
from .core.emit import value_of
from .translator.records import Record
from .core.values import Array, ArrayList, of_one_width


class Flattener:
    """Collects the leaves of one argument. leaves: values that are passed at run time; letters: their kinds; argument:
    its name in errors."""

    def __init__(self, argument):
        self.argument = argument
        self.letters, self.leaves = "", []

    def structure(self, value, hint=None):
        """Returns a hashable description of a value and adds its leaves."""
        note = note_of(hint)
        if isinstance(note, ConstantAnnotation):
            return ("constant", constant_key(self.argument, value), value)
        if value is None:
            return ("constant", None, None)
        if isinstance(value, (bool, int, float)) and not isinstance(value, enum.Enum):
            return self._scalar(value, note)
        if type(value) is tuple:
            return self._tuple(value, hint)
        if isinstance(value, tuple):
            raise TypeError(
                f"{self.argument}: '{type(value).__name__}' is a subclass of 'tuple'. Only plain tuples are accepted."
            )
        if isinstance(value, list):
            return self._list(value, note)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._record(value)
        return self._array(value, note)

    def _scalar(self, value, note):
        wide = isinstance(note, ScalarAnnotation) and note.dtype is dtypes.int64
        self._leaf("w" if wide else "r", value)
        return ("scalar",)

    def _leaf(self, letter, value):
        self.letters += letter
        self.leaves.append(value)

    def _inside(self, name, value, hint):
        outer, self.argument = (
            self.argument,
            (f"Invalid {name} of {self.argument[8:]}" if self.argument.startswith("Invalid ") else self.argument),
        )
        made = self.structure(value, hint)
        self.argument = outer
        return made

    def _tuple(self, value, hint):
        hints = typing.get_args(hint) if typing.get_origin(hint) is tuple else None
        if hints and hints[-1] is Ellipsis:
            hints = hints[:1] * len(value)
        if hints is not None and len(hints) != len(value):
            raise TypeError(
                f"{self.argument}: Received a tuple of length {len(value)} for a parameter annotated as a tuple of length {len(hints)}"
            )
        hints = hints or (None,) * len(value)
        return ("tuple", *(self._inside(f"item #{at}", *each) for at, each in enumerate(zip(value, hints))))

    def _record(self, value):
        kind = type(value)
        hints = typing.get_type_hints(kind, include_extras=True)
        names = [field.name for field in dataclasses.fields(kind)]
        return ("record", kind, *(self._inside(f"field '{name}'", getattr(value, name), hints.get(name)) for name in names))

    def _list(self, items, note):
        if not items:
            raise TypeError(f"{self.argument}: Empty lists are not supported")
        element = note.element if isinstance(note, ListAnnotation) else None
        tensors = []
        for item in items:
            if isinstance(item, (bool, int, float, str, tuple, list, types.NoneType)):
                raise TypeError(f"{self.argument}: Expected list items to be arrays, got {type(item).__name__}")
            tensors.append(tensor_of(self.argument, item))
        for what, facts in (
            ("rank", {each.dim() for each in tensors}),
            ("data type", {(each.dtype, bits_dtype(item)) for each, item in zip(tensors, items)}),
        ):
            if len(facts) > 1:
                raise TypeError(f"{self.argument}: the arrays of a list vary in {what}")
        made = [self._array(item, note_of(element) or element) for item in items]
        for (first, *_), (other, *_) in zip([each[2:] for each in made], [each[2:] for each in made[1:]]):
            for (axis, extent), (_, found) in zip(first, other):
                if extent != found:
                    raise TypeError(f"{self.argument}: the arrays of a list vary in static shape at axis {axis}")
        return ("list", *made)

    def _array(self, value, note):
        tensor, read_only = guarded_tensor(self.argument, value)
        note = note if isinstance(note, ArrayAnnotation) else ArrayAnnotation()
        extents = tuple(
            (axis, tensor.size(axis)) for axis in _axes(self.argument, "static_shape_dims", note.static_shape_dims, tensor)
        )
        strides = tuple(
            (axis, tensor.stride(axis)) for axis in _axes(self.argument, "static_stride_dims", note.static_stride_dims, tensor)
        )
        self._leaf("p" if read_only else "r", tensor)
        return ("array", note.index_dtype is dtypes.int64, extents, strides, bits_dtype(value))


def blocks_of(grid, arguments):
    """Returns the number of blocks along the three axes of a grid, which may be a function of the arguments."""
    grid = grid(*arguments) if callable(grid) else grid
    axes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    if len(axes) > 3 or not all(hasattr(each, "__index__") for each in axes):
        raise TypeError(
            f"the grid is {grid!r}; give a tuple of one to three integers, or a function of the arguments that gives one"
        )
    return tuple(each.__index__() for each in axes) + (1,) * (3 - len(axes))


def _axes(argument, what, axes, tensor):
    found = []
    for axis in axes:
        if not -tensor.dim() <= axis < tensor.dim():
            raise ValueError(f"{argument}: {what} contains axis {axis}, out of range for an array of rank {tensor.dim()}")
        if axis % tensor.dim() in found:
            raise ValueError(f"{argument}: {what} contains a duplicate axis {axis}")
        found.append(axis % tensor.dim())
    return sorted(found)


def needs_int64(tensor):
    """Returns True if shape and strides need int64 without an annotation, by the rule of a launch: an extent, a stride,
    the number of elements or the distance between two of them does not fit int32."""
    reach = sum(max(extent - 1, 0) * abs(stride) for extent, stride in zip(tensor.shape, tensor.stride()))
    return max(tensor.numel(), reach, *tensor.shape, *map(abs, tensor.stride()), 0) >= 2**31


_CONSTANTS = (bool, int, float, str, enum.Enum, dtypes.DType, types.NoneType, types.FunctionType)


def constant_key(argument, value):
    """Returns a key of a constant: 1, 1.0 and True have three different keys."""
    if type(value) is tuple:
        return tuple(constant_key(argument, item) for item in value)
    if dtypes.known(value) is not None:
        return dtypes.known(value)
    if isinstance(value, float) and not isinstance(value, enum.Enum):
        return (float, value.hex())
    if isinstance(value, _CONSTANTS):
        return (type(value), value)
    raise TypeError(f"{argument}: Objects of type '{type(value).__name__}' are not supported for a Constant parameter.")


def hashed(structure):
    """Returns a structure without the values that only their keys make comparable."""
    if structure[0] == "constant":
        return structure[:2]
    return tuple(hashed(each) if isinstance(each, tuple) and each and isinstance(each[0], str) else each for each in structure)


def rebuilt(translator, structure, described):
    """Returns the value of a structure; `described` is an iterator over its described leaves."""
    kind, *rest = structure
    if kind == "constant":
        return translator.host_value(rest[1])
    if kind == "scalar":
        return value_of(next(described))
    if kind == "array":
        wide, extents, strides, dtype = rest
        plain = value_of(next(described))
        return Array(plain.number, dtype or plain.dtype, plain.ndim, wide or plain.wide, dict(extents), dict(strides))
    if kind == "record":
        values = [rebuilt(translator, each, described) for each in rest[1:]]
        return Record(rest[0], dict(zip((field.name for field in dataclasses.fields(rest[0])), values)))
    values = tuple(rebuilt(translator, each, described) for each in rest)
    return ArrayList(of_one_width(values)) if kind == "list" else values
