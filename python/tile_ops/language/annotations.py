"""What annotations of a kernel's parameters say."""

import dataclasses
import inspect
import typing

from . import dtypes

T = typing.TypeVar("T")


@dataclasses.dataclass(frozen=True)
class ConstantAnnotation:
    """The parameter's value is known when the kernel is compiled."""


@dataclasses.dataclass(frozen=True)
class ScalarAnnotation:
    """The dtype of an integer parameter."""

    dtype: object = dtypes.int32


class _ConstantAlias:
    """Constant, or Constant[int]: Annotated[int, ConstantAnnotation()]."""

    def __getitem__(self, kind):
        return typing.Annotated[kind, ConstantAnnotation()]

    def __repr__(self):
        return "Constant"


Constant = _ConstantAlias()
ScalarInt64 = typing.Annotated[int, ScalarAnnotation(dtypes.int64)]


def _hints(function):
    try:
        return inspect.get_annotations(function, eval_str=True)
    except Exception:  # noqa: BLE001 whatever a string evaluates to
        return {name: value for name, value in function.__annotations__.items() if not isinstance(value, str)}


def kinds_of(function):
    """A letter for each parameter: r known at run time, c constant, w an integer of 64 bits."""
    hints, letters = _hints(function), ""
    for name in inspect.signature(function).parameters:
        hint = hints.get(name)
        notes = getattr(hint, "__metadata__", ())
        if isinstance(hint, _ConstantAlias) or any(isinstance(note, ConstantAnnotation) for note in notes):
            letters += "c"
        elif any(isinstance(note, ScalarAnnotation) and note.dtype is dtypes.int64 for note in notes):
            letters += "w"
        else:
            letters += "r"
    return letters
