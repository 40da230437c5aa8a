"""Frozen dataclasses in kernels: construction, attributes and method calls."""

import dataclasses
import functools
import inspect
import types

from ..core import advice
from ..core.errors import TileTypeError
from ..core.reads import note
from ..core.registry import HelperFunction, binding_text
from ..core.values import Method, Partial, shown

_NONE = dataclasses.MISSING


class Record:
    """An instance of a frozen dataclass whose fields are values of the kernel."""

    __slots__ = ("kind", "fields")

    def __init__(self, kind, fields):
        self.kind, self.fields = kind, fields

    @property
    def record_kind(self):
        """Returns the class. Modules that cannot import Record use it."""
        return self.kind


def require_frozen(kind):
    """Raises an error for a dataclass that is not frozen."""
    for each in kind.__mro__[:-1]:
        if "__dataclass_params__" in vars(each) and not each.__dataclass_params__.frozen:
            raise TileTypeError(f"Only frozen dataclasses are supported, {each.__name__} is not: @dataclass(frozen=True)")


def require_supported(kind):
    """Checks a class. Errors: it is not a frozen dataclass that kernels support."""
    require_frozen(kind)
    for each in kind.__mro__[:-1]:
        if not dataclasses.is_dataclass(each) or "__dataclass_params__" not in vars(each):
            raise TileTypeError(
                f"Non-dataclass subclasses of a dataclass are not supported: {each.__name__} is not a dataclass itself"
            )
        if "__new__" in vars(each):
            raise TileTypeError(f"Dataclasses with custom __new__ are not supported: {each.__name__}")
    init = vars(kind).get("__init__")
    if init is None or inspect.unwrap(init).__code__.co_filename != "<string>":
        raise TileTypeError(
            "Dataclass instance creation is only supported for dataclasses with a default generated __init__() method, "
            f"{kind.__name__} has {'another' if init else 'none'} (init=False, or a method of its own); use __post_init__"
        )
    for field in dataclasses.fields(kind):
        if field.default_factory is not _NONE:
            raise TileTypeError(f"Dataclasses with default_factory fields are not supported: {kind.__name__}.{field.name}")
        if not field.init:
            raise TileTypeError(f"Dataclasses with init=False fields are not supported: {kind.__name__}.{field.name}")


def built(translator, kind, arguments, named):
    """Translates kind(*arguments, **named)."""
    require_supported(kind)
    note("type", kind, "__dataclass_fields__")
    note("type", kind, "__post_init__")
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
    """Returns record.name: a field, property, method or class attribute."""
    if name in record.fields:
        return record.fields[name]
    note("type", record.kind, name)
    found = inspect.getattr_static(record.kind, name, _NONE)
    if found is _NONE:
        known = [*record.fields, *(each for kind in record.kind.__mro__[:-1] for each in vars(kind))]
        raise TileTypeError(f"{record.kind.__name__} object has no attribute '{name}'{advice.meant(name, known)}")
    if isinstance(found, property):
        return translator.call(found.fget, (record,), {})
    if isinstance(found, functools.cached_property):
        return translator.call(found.func, (record,), {})
    if isinstance(found, classmethod):
        return Method(found.__func__, record.kind)
    if isinstance(found, functools.partialmethod):
        arguments, named = (tuple(map(translator.host_value, found.args)), found.keywords.items())
        named = {key: translator.host_value(value) for key, value in named}
        return Partial(translator.host_value(found.func), (record, *arguments), named)
    if isinstance(found, functools.singledispatchmethod):
        raise TileTypeError(f"{record.kind.__name__}.{name} is a singledispatchmethod; a tile has no class to choose by")
    if isinstance(found, (functools._lru_cache_wrapper, HelperFunction)):
        return Partial(translator.host_value(found), (record,), {})
    if isinstance(found, types.FunctionType):
        return Method(found, record)
    return translator.host_value(found)


def special(record, name):
    """Returns a method that the class itself defines, or None."""
    note("type", record.kind, name)
    found = inspect.getattr_static(record.kind, name, None)
    return found if isinstance(found, types.FunctionType) else None


def replaced(_, record, /, **changes):
    """Translates dataclasses.replace(record, ...)."""
    if not isinstance(record, Record):
        raise TileTypeError(f"replace() expects a dataclass, got {shown(record)}")
    for name in changes:
        if name not in record.fields:
            close = advice.meant(name, record.fields)
            raise TileTypeError(f"Dataclass '{record.kind.__name__}' has no such field '{name}'{close}")
    return Record(record.kind, {**record.fields, **changes})
