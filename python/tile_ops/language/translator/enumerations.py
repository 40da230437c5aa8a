"""Enumerations in kernels: members are constants; looked up by value and name, and their methods called."""

import enum
import inspect
import operator
import types

from ..core import advice
from ..core.errors import TileTypeError, TileValueError
from ..core.values import Method, Strict, is_loose, shown

NONE = object()  # no such attribute
_COMBINED = {"BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor}


def _python(kind, value):
    """A constant as Python has it. Error: it is none."""
    if isinstance(value, Strict):
        return value.value
    if type(value) is tuple:
        return tuple(_python(kind, each) for each in value)
    if value is None or is_loose(value) or isinstance(value, (str, enum.Enum)):
        return value
    raise TileTypeError(
        f"{kind.__name__}() expects a constant, got {shown(value)}; a member is known while the kernel is compiled"
    )


def found(kind, arguments, named):
    """Color(1) in a kernel."""
    arguments = [_python(kind, each) for each in arguments]
    named = {name: _python(kind, each) for name, each in named.items()}
    try:
        return kind(*arguments, **named)
    except ValueError as error:
        raise TileValueError(str(error)) from None


def item(kind, name):
    """Color["RED"] in a kernel."""
    if not isinstance(name, str) or name not in kind.__members__:
        close = advice.meant(name, kind.__members__) if isinstance(name, str) else ""
        raise TileTypeError(f"{kind.__name__} has no member {_python(kind, name)!r}{close}")
    return kind[name]


def attribute(translator, member, name):
    """member.name, or NONE; members that are numbers have what numbers have beside."""
    if name in ("name", "value"):
        return translator.host_value(getattr(member, name))
    own = inspect.getattr_static(type(member), name, None)
    if isinstance(own, types.FunctionType):
        return Method(own, member)
    if isinstance(own, property):
        return translator.call(own.fget, (member,), {})
    return NONE if own is None else translator.host_value(getattr(member, name))


def combined(name, x, y):
    """x & y, x | y, x ^ y of flags."""
    if type(x) is not type(y):
        raise TileTypeError(f"flags of {type(x).__name__} and {type(y).__name__} do not combine")
    return _COMBINED[name](x, y)
