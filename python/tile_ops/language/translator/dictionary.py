"""Dictionaries in kernels: keys are constants, values are any values, and the dictionary is immutable."""

from ..core.errors import TileTypeError
from ..core.registry import LanguageFunction
from ..core.values import Method, as_python, shown

UNCHANGED = "Dictionaries do not change in a kernel; make another: {**d, key: value}"
_CHANGING = ("clear", "pop", "popitem", "setdefault", "update")


def key(value):
    """Returns a key of the kernel as a Python object. Error: the key is not a constant."""
    return as_python(value, lambda part: TileTypeError(f"A dictionary's keys are constants, got {shown(part)}"))


def item(owner, index):
    """Returns owner[index]."""
    name = key(index)
    if name not in owner:
        raise TileTypeError(f"Key {name!r} not found in dictionary")
    return owner[name]


def _method(function):
    made = LanguageFunction(function)
    made.__name__ = function.__name__.strip("_")
    return made


@_method
def _get(translator, owner, name, default=None, /):
    return owner.get(key(name), default)


@_method
def _keys(translator, owner, /):
    return tuple(owner)


@_method
def _values(translator, owner, /):
    return tuple(owner.values())


@_method
def _items(translator, owner, /):
    return tuple(owner.items())


@_method
def _copy(translator, owner, /):
    return dict(owner)


_METHODS = {each.__name__: each for each in (_get, _keys, _values, _items, _copy)}


def method(owner, name):
    """Returns the method owner.name; None: it does not exist. Error: it would change the dictionary."""
    if name in _CHANGING:
        raise TileTypeError(f"{name}(): {UNCHANGED}")
    return Method(_METHODS[name], owner) if name in _METHODS else None


def made(translator, given=(), /, **named):
    """Translates dict(...)."""
    if type(given) is tuple:
        for each in given:
            if type(each) is not tuple or len(each) != 2:
                raise TileTypeError(f"dict() expects pairs of a key and a value, got {shown(each)}")
        given = {key(name): value for name, value in given}
    if type(given) is not dict:
        raise TileTypeError(f"dict() expects a dictionary or a tuple of pairs, got {shown(given)}")
    return {**given, **named}
