"""Reads the annotations of a kernel's parameters."""

import dataclasses
import inspect
import types
import typing

from . import dtypes


@dataclasses.dataclass(frozen=True)
class ConstantAnnotation:
    """Says that a parameter's value is known when the kernel is compiled."""


@dataclasses.dataclass(frozen=True)
class ScalarAnnotation:
    """Gives the dtype of an integer parameter."""

    dtype: object = dtypes.int32


def _require_axes(name, axes):
    if not isinstance(axes, tuple):
        raise TypeError(f"{name} must be a tuple of integers, got {type(axes).__name__}")
    for axis in axes:
        if isinstance(axis, bool) or not isinstance(axis, int):
            raise TypeError(f"{name}: each axis must be int, got {type(axis).__name__}")


@dataclasses.dataclass(frozen=True)
class ArrayAnnotation:
    """Says how a kernel reads the shape and strides of an array parameter.

    index_dtype: the dtype of shape and strides, int32 or int64.
    static_shape_dims, static_stride_dims: tuples of the axes whose extent or stride is a constant of the kernel.
    Errors: ValueError for another index_dtype, TypeError for axes that are no tuple of integers.
    """

    _: dataclasses.KW_ONLY
    index_dtype: object = dtypes.int32
    static_shape_dims: tuple = ()
    static_stride_dims: tuple = ()

    def __post_init__(self):
        if dtypes.known(self.index_dtype) not in (dtypes.int32, dtypes.int64):
            raise ValueError(f"index_dtype must be int32 or int64, got {self.index_dtype}")
        _require_axes("static_shape_dims", self.static_shape_dims)
        _require_axes("static_stride_dims", self.static_stride_dims)


@dataclasses.dataclass(frozen=True)
class ListAnnotation:
    """Annotates a parameter that is a list of arrays.

    element: an ArrayAnnotation, or an Annotated type that holds one.
    Errors: TypeError for another element.
    """

    _: dataclasses.KW_ONLY
    element: object

    def __post_init__(self):
        if not isinstance(note_of(self.element) or self.element, ArrayAnnotation):
            raise TypeError(
                f"ListAnnotation: the element must be an ArrayAnnotation or an Annotated type with one, got {self.element!r}"
            )


class _ConstantAlias:
    """Annotates a constant: Constant, or Constant[int], which is Annotated[int, ConstantAnnotation()]."""

    def __getitem__(self, kind):
        return typing.Annotated[kind, ConstantAnnotation()]

    def __repr__(self):
        return "Constant"


class _Wide:
    """Annotates a large array: IndexedWithInt64[Array] is Annotated[Array, ArrayAnnotation(index_dtype=int64)]."""

    def __getitem__(self, kind):
        return typing.Annotated[kind, ArrayAnnotation(index_dtype=dtypes.int64)]

    def __repr__(self):
        return "IndexedWithInt64"


Constant = _ConstantAlias()
IndexedWithInt64 = _Wide()
ScalarInt64 = typing.Annotated[int, ScalarAnnotation(dtypes.int64)]


class Array:
    """Annotates a parameter that is a tensor. Kernels do not check it."""


class Tile:
    """Annotates a value of the running kernel. Kernels do not check it."""


class Scalar:
    """Annotates a tile of shape (). Kernels do not check it."""


class TiledView:
    """Annotates an array divided into tiles. Kernels do not check it."""


_NOTES = (ConstantAnnotation, ScalarAnnotation, ArrayAnnotation, ListAnnotation)


def without_none(hint):
    """Returns X for "X | None"; any other annotation is returned as it is."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    others = [each for each in typing.get_args(hint) if each is not types.NoneType]
    return others[0] if len(others) == 1 else hint


def note_of(hint):
    """Returns the annotation object of a parameter, or None."""
    hint = without_none(hint)
    if isinstance(hint, _ConstantAlias):
        return ConstantAnnotation()
    if isinstance(hint, _Wide):
        return ArrayAnnotation(index_dtype=dtypes.int64)
    notes = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, _NOTES)]
    return notes[0] if notes else None


def hints_of(function):
    """Returns the annotations of a function's parameters by name."""
    try:
        return inspect.get_annotations(function, eval_str=True)
    except Exception:  # noqa: BLE001 evaluating a string may raise anything
        pass
    hints = {}
    for name, hint in function.__annotations__.items():
        try:
            hints[name] = eval(hint, function.__globals__) if isinstance(hint, str) else hint  # noqa: S307
        except Exception:  # noqa: BLE001
            hints[name] = None
    return hints


def kinds_of(function):
    """Returns a letter for each parameter: r run-time, c constant, w 64-bit integer, s structured."""
    hints, letters = hints_of(function), ""
    for name in inspect.signature(function).parameters:
        hint = without_none(hints.get(name))
        note = note_of(hint)
        if isinstance(note, ConstantAnnotation):
            letters += "c"
        elif isinstance(note, ScalarAnnotation) and note.dtype is dtypes.int64:
            letters += "w"
        else:
            letters += "r" if note is None and typing.get_origin(hint) is not tuple else "s"
    return letters
