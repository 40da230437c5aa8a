"""The names of one function of a kernel."""

import builtins
import dataclasses

from ..core.errors import TileSyntaxError
from ..core.values import Undefined


@dataclasses.dataclass
class Binding:
    value: object
    line: int


class Scope:
    """source: the function's text; function: its Python object, None of one defined in the kernel; outer: the scope
    that one was defined in."""

    def __init__(self, name, source, function, outer=None, local=()):
        self.name, self.source, self.function, self.outer = name, source, function, outer
        self.local = frozenset(local)  # names that it assigns somewhere
        self.names = {}
        self.loops = []
        self.exits = ()  # of `with`: (how many loops are around it, what runs at its end)

    def bind(self, name, value, line):
        self.names[name] = Binding(value, line)

    def _host(self):
        scope = self
        while scope.function is None:
            scope = scope.outer
        return scope.function

    def find(self, name):
        """(found, value, is_host): host values are those of Python's globals and closures."""
        scope = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name].value, False
            if name in scope.local:
                raise TileSyntaxError(f"Undefined variable {name}")
            scope = scope.outer
        function = self._host()
        if name in function.__code__.co_freevars:
            cell = function.__closure__[function.__code__.co_freevars.index(name)]
            try:
                return cell.cell_contents, True
            except ValueError:
                raise TileSyntaxError(f"Undefined variable {name}") from None
        if name in function.__globals__:
            return function.__globals__[name], True
        if hasattr(builtins, name):
            return getattr(builtins, name), True
        raise TileSyntaxError(f"Undefined variable {name}")

    def snapshot(self):
        return dict(self.names)

    def undefine(self, names):
        """Names that only some ways assign."""
        for name in names:
            self.names[name] = Binding(Undefined(), 0)
