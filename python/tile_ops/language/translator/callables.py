"""Converts Python callables other than plain functions to kernel values: the wrapped function and its bound arguments."""

import contextlib
import functools
import types

from ..core.errors import TileError, UnsupportedCallError
from ..core.reached import is_users
from ..core.reads import note
from ..core.values import Method, Partial

_CONTEXT = contextlib.contextmanager(lambda: None).__code__
_DISPATCH = functools.singledispatch(lambda _: None).__code__


def wrapped_function(translator, value):
    """Returns the kernel's value for a callable; None if the value is not one."""
    if isinstance(value, functools.partial):
        named = {name: translator.host_value(each) for name, each in value.keywords.items()}
        return Partial(translator.host_value(value.func), tuple(map(translator.host_value, value.args)), named)
    if isinstance(value, functools._lru_cache_wrapper):  # an inlined call does not need the cache
        return translator.host_value(value.__wrapped__)
    if isinstance(value, staticmethod):
        return translator.host_value(value.__func__)
    if isinstance(value, types.MethodType):
        return _method(translator, value)
    if callable(value) and is_users(type(value).__module__):
        kind = type(value).__qualname__
        raise UnsupportedCallError(
            f"{kind}.__call__() is not supported in device code: a {kind} is not a constant; write a function, or make "
            f"{kind} a frozen dataclass"
        )
    return None


def _method(translator, value):
    try:
        owner = translator.host_value(value.__self__)
    except TileError:
        kind = type(value.__self__).__qualname__
        raise UnsupportedCallError(
            f"{value.__qualname__}() is not supported in device code: its object, a {kind}, is not a constant; write a "
            f"function, or make {kind} a frozen dataclass"
        ) from None
    if isinstance(value.__func__, types.FunctionType):
        return Method(value.__func__, owner)
    return Partial(translator.host_value(value.__func__), (owner,), {})


def generator_of(manager):
    """Returns the generator function that contextlib.contextmanager wraps in `manager`; None if it wraps none."""
    if not isinstance(manager, types.FunctionType) or manager.__code__ is not _CONTEXT:
        return None
    cell = manager.__closure__[_CONTEXT.co_freevars.index("func")]
    note("cell", cell)
    return cell.cell_contents


def require_inlined(function):
    """Raises an error if a function dispatches on the class of an argument, which a tile does not have."""
    if function.__code__ is _DISPATCH:
        raise UnsupportedCallError(
            f"{function.__name__}() is not supported in device code: functools.singledispatch chooses by the class of an "
            "argument, and a tile has none; write an `if` of its dtype or shape"
        )
