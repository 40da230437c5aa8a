"""Output for debugging: print, printf, f-strings, assert_."""

import ast
import dataclasses
import enum
import inspect
import re

import torch

from ..core import dtypes
from .arithmetic import nonzero
from ..core.checks import operand
from ..core.errors import TileSyntaxError, TileTypeError, TileValueError
from ..core.registry import language_function
from ..core.values import Tile, constant_of, dtype_of, is_constant, shown

_SPECIFIER = re.compile(r"%([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|j|z|t|L)?([a-zA-Z%])")
_INTEGERS, _FLOATS = "diuoxX", "eEfFgGaA"


class Text:
    """Text that contains values of the running kernel: its parts are strings and (specifier, tile)."""

    language_value = True

    def __init__(self, parts):
        self.parts = parts


def _specifier(dtype):
    if dtype.category == dtypes.FLOAT:
        return "%f"
    return "%u" if dtype.category == dtypes.INTEGER and not dtype.signed else "%d"


def _emit_print(emitter, text, tiles):
    numbers = [emitter.cast(each, dtypes.float32) if each.dtype in dtypes.OF_BITS else each for each in tiles]
    emitter.emit("print", *numbers, format=text)


def parts_of(translator, value):
    """Returns str() of a value as print shows it, in parts."""
    if isinstance(value, Text):
        return value.parts
    if isinstance(value, Tile):
        return [(_specifier(value.dtype), value)]
    if is_constant(value):
        return [str(constant_of(value))]
    kind = getattr(value, "record_kind", None)
    own = None if kind is None else _own(kind, "__str__")
    if own is not None:
        return _called(translator, own, value)
    return [str(value)] if isinstance(value, (str, enum.Enum)) else repr_parts(translator, value)


def repr_parts(translator, value):
    """Returns repr() of a value, in parts."""
    if isinstance(value, Text):
        return _quoted(value.parts)
    if isinstance(value, Tile):
        return parts_of(translator, value)
    if is_constant(value):
        return [repr(constant_of(value))]
    if type(value) is tuple:
        items = [repr_parts(translator, item) for item in value]
        return ["(", *_separated(items), ",)" if len(items) == 1 else ")"]
    if type(value) is dict:
        return ["{", *_separated([[f"{key!r}: ", *repr_parts(translator, each)] for key, each in value.items()]), "}"]
    if getattr(value, "record_kind", None) is not None:
        return _record(translator, value)
    enumeration = isinstance(value, type) and issubclass(value, enum.Enum)
    if value is None or enumeration or isinstance(value, (str, enum.Enum, dtypes.DType, torch.dtype)):
        return [repr(value)]
    raise TileTypeError(f"print: cannot show a value of type {shown(value)}")


def _separated(items):
    return [part for index, parts in enumerate(items) for part in (*([", "] if index else []), *parts)]


def _quoted(parts):
    """Returns repr() of a string whose run-time parts are assumed to contain no quotes."""
    known = "".join(part for part in parts if isinstance(part, str))
    double = "'" in known and '"' not in known
    # A leading quote of the other kind makes repr() choose the wanted quotes; the slice removes it.
    other = "'" if double else '"'
    inner = [repr(other + part)[2:-1] if isinstance(part, str) else part for part in parts]
    return ['"' if double else "'", *inner, '"' if double else "'"]


def _own(kind, name):
    """Returns a method that the author of a dataclass wrote; None: it is Python's own or generated."""
    found = inspect.getattr_static(kind, name, None)
    found = inspect.unwrap(found) if inspect.isfunction(found) else None
    return None if found is None or found.__code__.co_filename == "<string>" else found


def _called(translator, function, record):
    made = translator.call(function, (record,), {})
    if not isinstance(made, (str, Text)):
        raise TileTypeError(f"{function.__qualname__}() gave {shown(made)}; it must give a string")
    return parts_of(translator, made)


def _record(translator, record):
    kind = record.record_kind
    own = _own(kind, "__repr__")
    if own is not None:
        return _called(translator, own, record)
    if inspect.getattr_static(kind, "__repr__") is object.__repr__:  # dataclass(repr=False)
        return [f"<{kind.__qualname__} object>"]
    named = [field.name for field in dataclasses.fields(kind) if field.repr]
    fields = [[f"{name}=", *repr_parts(translator, record.fields[name])] for name in named]
    return [f"{kind.__qualname__}(", *_separated(fields), ")"]


def joined_text(translator, x, y):
    """Returns x + y for strings."""
    return joined([*parts_of(translator, x), *parts_of(translator, y)])


def joined(parts):
    """Returns a string if all parts are strings, otherwise a Text."""
    return "".join(parts) if all(isinstance(part, str) for part in parts) else Text(parts)


_SPEC = re.compile(r"([<>^])?([+\- ])?(#)?(0)?(\d+)?(?:\.(\d+))?([a-zA-Z])?$")


def _with_spec(tile, spec):
    """Converts a Python format specification to a C one."""
    match = _SPEC.fullmatch(spec)
    if not match:
        raise TileValueError(f"format spec {spec!r} is not supported; use [<>^][+- ][#][0][width][.precision][type]")
    align, sign, alternate, zero, width, precision, kind = match.groups()
    default = _specifier(tile.dtype)[1]
    kind = kind or default
    allowed = _FLOATS if tile.dtype.category == dtypes.FLOAT else _INTEGERS
    if kind not in allowed or align == "^":
        raise TileTypeError(f"format spec {spec!r} is incompatible with dtype {tile.dtype}")
    flags = ("-" if align == "<" else "") + (sign if sign and sign != "-" else "") + (alternate or "") + (zero or "")
    return f"%{flags}{width or ''}{'.' + precision if precision else ''}{kind}"


def formatted(translator, node):
    """Translates an f-string."""
    parts = []
    for each in node.values:
        if isinstance(each, ast.Constant):
            parts.append(each.value)
            continue
        value = translator.value(each.value)
        if each.conversion != -1:
            raise TileSyntaxError("!r, !s, !a conversions are not supported; write repr(value) or str(value)")
        kind = getattr(value, "record_kind", None)
        if kind is not None and kind.__format__ is not object.__format__:
            raise TileTypeError(
                f"Formatting dataclass values with custom __format__() is not supported: {kind.__name__}; write str(value)"
            )
        if each.format_spec is None:
            parts += parts_of(translator, value)
            continue
        if any(not isinstance(part, ast.Constant) for part in each.format_spec.values):
            raise TileSyntaxError("format spec must be a literal string")
        spec = "".join(part.value for part in each.format_spec.values)
        if isinstance(value, Tile):
            parts.append((_with_spec(value, spec), value))
        elif is_constant(value):
            try:
                parts.append(format(constant_of(value), spec))
            except ValueError as error:
                raise TileValueError(f"format spec {spec!r}: {error}") from None
        else:
            raise TileTypeError(f"cannot apply format spec to a value of type {shown(value)}")
    return joined(parts)


def _print(translator, parts):
    text, tiles = "", []
    for part in parts:
        if isinstance(part, str):
            text += part.replace("%", "%%")
        else:
            text += part[0]
            tiles.append(part[1])
    _emit_print(translator.emitter, text, tiles)


def _only_text(what, value):
    if not isinstance(value, str):
        raise TileTypeError(f"print: {what} must be a string, got {shown(value)}")
    return value


@language_function(host=print)
def print_(translator, *args, sep=" ", end="\n"):
    """Writes values to the process's standard output: numbers, tiles as nested lists, text."""
    parts, sep = [], _only_text("sep", sep)
    for index, value in enumerate(args):
        parts += [sep] if index else []
        parts += parts_of(translator, value)
    _print(translator, [*parts, _only_text("end", end)])


@language_function
def printf(translator, format, /, *args):
    """Writes values by a C format. %% is a percent sign; length modifiers, as in %lld, are ignored."""
    if not isinstance(format, str):
        raise TileTypeError(f"printf: the format must be a constant string, got {shown(format)}")
    text, at, given, tiles = "", 0, 0, []
    for match in _SPECIFIER.finditer(format):
        text += _literal(format[at : match.start()])
        at = match.end()
        kind = match.group(2)
        if kind == "%":
            text += "%%"
            continue
        if kind not in _INTEGERS + _FLOATS:
            raise TileTypeError(f"Specifier {kind} in {match.group()} is not supported")
        if given == len(args):
            raise TileTypeError(f"Not enough arguments for format string {format!r}")
        value = operand(translator, args[given])
        if (kind in _FLOATS) != (dtype_of(value).category == dtypes.FLOAT):
            raise TileTypeError(f"Format {match.group()} for arg #{given} got unexpected type of {shown(value)}")
        tiles.append(translator.emitter.tile(value))
        text += f"%{match.group(1)}{kind}"
        given += 1
    text += _literal(format[at:])
    if given < len(args):
        raise TileTypeError(f"Too many arguments for format string {format!r}")
    _emit_print(translator.emitter, text, tiles)


def _literal(text):
    if "%" in text:
        raise TileTypeError(f"Invalid format string: {text!r}")
    return text


@language_function
def assert_(translator, cond: operand, /, message=None):
    """Checks that every element is true. If one is not, the block stops and the launch reports the message."""
    if message is not None and not isinstance(message, str):
        raise TileTypeError(f"assert_: the message must be a constant string, got {shown(message)}")
    translator.emitter.emit("assert", nonzero(translator, cond), message=message or "")
