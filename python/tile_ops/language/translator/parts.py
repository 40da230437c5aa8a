"""Splits compound values into parts at control-flow joins, and rebuilds them from the parts."""

import dataclasses

from ..core.values import Conflict, LocalFunction, Method, Range, Undefined
from ..functions.memory import Slice
from .records import Record
from .scope import Scope
from .source import read_in


_NONE = Undefined()  # for a name that has no value on some path
_FIELDS = {slice: ("start", "stop", "step"), Range: ("start", "stop", "step"), Slice: ("start", "length")}


@dataclasses.dataclass
class Composite:
    """A split value. key: equal for values that can be joined; make(parts) rebuilds one."""

    value: object
    key: object
    parts: list
    make: object


def composite_of(value, before):
    """Returns a value as a Composite; None: it has no parts. before: the Mark of the region."""
    if type(value) is tuple:
        return Composite(value, (tuple, len(value)), list(value), tuple)
    if isinstance(value, Record):
        names = tuple(value.fields)
        key = Record, value.kind, names
        return Composite(value, key, list(value.fields.values()), lambda parts: Record(value.kind, dict(zip(names, parts))))
    if type(value) is dict:
        names = tuple(value)
        return Composite(value, (dict, names), list(value.values()), lambda parts: dict(zip(names, parts)))
    for kind, fields in _FIELDS.items():
        if isinstance(value, kind):
            return Composite(value, (kind,), [getattr(value, name) for name in fields], lambda parts: kind(*parts))
    if isinstance(value, Method):
        key = Method, id(value.function)
        return Composite(value, key, [value.owner], lambda parts: Method(value.function, *parts))
    return _Closure(value, before).composite if isinstance(value, LocalFunction) else None


class _Closure:
    """Splits a local function: its parts are the values that it, and the functions that it calls, read from scopes that
    have ended. Names in scopes that are still open stay names."""

    def __init__(self, function, before):
        self._before, self._functions, self._scopes, self._parts = before, [], [], []
        self._defaults, self._names = [], {}  # templates
        key = [self._template(function)]
        for each in self._functions:  # the list grows during the loop
            self._defaults.append(list(map(self._template, [*each.defaults, *each.named_defaults])))
            key.append((id(each.node), self._scope(each.scope), *self._defaults[-1]))
            for name in read_in(each.node):
                scope = self._owner(each.scope, name)
                if scope is not None and (id(scope), name) not in self._names:
                    template = self._template(scope.names[name].value)
                    self._names[id(scope), name] = scope, template, scope.names[name].line
                    key.append((self._scope(scope), name, template))
        key += [self._scope(scope.outer) for scope in self._scopes if scope.outer]
        self.composite = Composite(function, (LocalFunction, *key), self._parts, self._made)

    def _owner(self, scope, name):
        """Returns the ended scope that a name is read from; None: the name belongs to an open scope."""
        while scope is not None and not self._before.keeps(scope):
            if name in scope.names:
                return scope
            if name in scope.local:
                return None
            scope = scope.outer
        return None

    def _scope(self, scope):
        """Returns the representation of a scope in the key."""
        if self._before.keeps(scope):
            return "kept", id(scope)
        if scope not in self._scopes:
            self._scopes.append(scope)
        return "ended", self._scopes.index(scope), id(scope.source)

    def _template(self, value):
        """Returns a template by which a value is rebuilt from the parts."""
        if isinstance(value, LocalFunction):
            if value not in self._functions:
                self._functions.append(value)
            return "function", self._functions.index(value)
        if type(value) is tuple:
            return "tuple", tuple(map(self._template, value))
        if isinstance(value, (Undefined, Conflict)):
            return "none", _NONE
        self._parts.append(value)
        return "part", len(self._parts) - 1

    def _made(self, parts):
        scopes = {}

        def scope_of(scope):
            if scope is None or self._before.keeps(scope):
                return scope
            if id(scope) not in scopes:
                made = Scope(scope.name, scope.source, scope.function, scope_of(scope.outer), scope.local)
                made.open = False
                scopes[id(scope)] = made
            return scopes[id(scope)]

        functions = [LocalFunction(each.name, each.node, scope_of(each.scope), [], []) for each in self._functions]

        def value_of(template):
            kind, what = template
            if kind == "tuple":
                return tuple(map(value_of, what))
            if kind == "none":
                return what
            return functions[what] if kind == "function" else parts[what]

        for made, each, templates in zip(functions, self._functions, self._defaults):
            values, count = list(map(value_of, templates)), len(each.defaults)
            made.defaults, made.named_defaults = values[:count], values[count:]
        for (_, name), (scope, template, line) in self._names.items():
            scope_of(scope).bind(name, value_of(template), line)
        return functions[0]
