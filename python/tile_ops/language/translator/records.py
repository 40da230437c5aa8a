"""Frozen dataclasses in kernels: built, read, and their methods called."""

import dataclasses
import inspect
import types

from ..core.errors import TileTypeError
from ..core.registry import binding_text
from ..core.values import Method, shown

_NONE = dataclasses.MISSING


class Record:
    """An instance of a frozen dataclass whose fields are values of the kernel."""

    __slots__ = ("kind", "fields")

    def __init__(self, kind, fields):
        self.kind, self.fields = kind, fields


def require_supported(kind):
    """Checks a class. Errors: it is no frozen dataclass that kernels take."""
    for each in kind.__mro__[:-1]:
        if not dataclasses.is_dataclass(each) or "__dataclass_params__" not in vars(each):
            raise TileTypeError(
                f"{each.__name__} is no dataclass of its own; subclasses of a dataclass must be dataclasses, too"
            )
        if not each.__dataclass_params__.frozen:
            raise TileTypeError(
                f"Only frozen dataclasses are supported, {each.__name__} is not: @dataclass(frozen=True)"
            )
        if "__new__" in vars(each):
            raise TileTypeError(f"Dataclasses with custom __new__ are not supported: {each.__name__}")
    if not kind.__dataclass_params__.init:
        raise TileTypeError(f"Dataclasses with init=False are not supported: {kind.__name__}")
    for field in dataclasses.fields(kind):
        if field.default_factory is not _NONE:
            raise TileTypeError(
                f"Dataclass fields with default_factory are not supported: {kind.__name__}.{field.name}"
            )
        if not field.init:
            raise TileTypeError(f"Dataclass fields with init=False are not supported: {kind.__name__}.{field.name}")


def built(translator, kind, arguments, named):
    """kind(*arguments, **named) in a kernel."""
    require_supported(kind)
    parameters = []
    for field in dataclasses.fields(kind):
        how = inspect.Parameter.KEYWORD_ONLY if field.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = inspect.Parameter.empty if field.default is _NONE else field.default
        parameters.append(inspect.Parameter(field.name, how, default=default))
    parameters.sort(key=lambda each: each.kind)
    try:
        bound = inspect.Signature(parameters).bind(*arguments, **named)
    except TypeError as error:
        raise TileTypeError(f"{kind.__name__}(): {binding_text(error, inspect.Signature(parameters))}") from None
    fields = dict(bound.arguments)
    for parameter in parameters:
        if parameter.name not in fields:
            fields[parameter.name] = translator.host_value(parameter.default)
    made = Record(kind, fields)
    if hasattr(kind, "__post_init__"):
        translator.call(kind.__post_init__, (made,), {})
    return made


def attribute(translator, record, name):
    """record.name: a field, property, method or class attribute."""
    if name in record.fields:
        return record.fields[name]
    found = inspect.getattr_static(record.kind, name, _NONE)
    if found is _NONE:
        raise TileTypeError(f"{record.kind.__name__} object has no attribute '{name}'")
    if isinstance(found, property):
        return translator.call(found.fget, (record,), {})
    if isinstance(found, staticmethod):
        return found.__func__
    if isinstance(found, types.FunctionType):
        return Method(found, record)
    return translator.host_value(found)


def special(record, name):
    """A method that the class itself defines; None: it does not."""
    found = inspect.getattr_static(record.kind, name, None)
    return found if isinstance(found, types.FunctionType) else None


def replaced(_, record, /, **changes):
    """dataclasses.replace(record, ...)"""
    if not isinstance(record, Record):
        raise TileTypeError(f"replace() expects a dataclass, got {shown(record)}")
    for name in changes:
        if name not in record.fields:
            raise TileTypeError(f"Dataclass '{record.kind.__name__}' has no such field '{name}'")
    return Record(record.kind, {**record.fields, **changes})
