"""Enumerations in kernels: looks members up by value and name, calls their methods, and combines flags."""

import inspect
import operator
import types

from ..core import advice
from ..core.errors import TileTypeError, TileValueError
from ..core.values import Method, as_python, shown

NONE = object()  # the result for a missing attribute
_COMBINED = {"BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor}


def _python(kind, value):
    """Returns a constant as Python's own object. Error: it is not a constant."""

    def error(part):
        return TileTypeError(
            f"{kind.__name__}() expects a constant, got {shown(part)}; a member is known while the kernel is compiled"
        )

    return as_python(value, error)


def found(kind, arguments, named):
    """Translates a lookup by value, Color(1)."""
    arguments = [_python(kind, each) for each in arguments]
    named = {name: _python(kind, each) for name, each in named.items()}
    try:
        return kind(*arguments, **named)
    except ValueError as error:
        raise TileValueError(str(error)) from None
    except Exception as error:  # wrong arguments, or an error of the enumeration's own _missing_
        raise TileTypeError(f"{kind.__name__}() takes the value of a member; {type(error).__name__}: {error}") from error


def item(kind, name):
    """Translates a lookup by name, Color["RED"]."""
    if not isinstance(name, str) or name not in kind.__members__:
        close = advice.meant(name, kind.__members__) if isinstance(name, str) else ""
        raise TileTypeError(f"{kind.__name__} has no member {_python(kind, name)!r}{close}")
    return kind[name]


def attribute(translator, member, name):
    """Returns member.name, or NONE; a member that is a number also has the attributes of numbers."""
    if name in ("name", "value"):
        return translator.host_value(getattr(member, name))
    own = inspect.getattr_static(type(member), name, None)
    if isinstance(own, types.FunctionType):
        return Method(own, member)
    if isinstance(own, property):
        return translator.call(own.fget, (member,), {})
    return NONE if own is None else translator.host_value(getattr(member, name))


def combined(name, x, y):
    """Returns x & y, x | y or x ^ y of flags."""
    if type(x) is not type(y):
        raise TileTypeError(f"flags of {type(x).__name__} and {type(y).__name__} do not combine")
    return _COMBINED[name](x, y)
