"""The names of one function of a kernel."""

import builtins
import dataclasses
import itertools

from ..core.errors import TileSyntaxError
from ..core.reads import note, note_item
from ..core.values import Undefined


_born = itertools.count()


@dataclasses.dataclass
class Binding:
    value: object
    line: int


class Mark:
    """The beginning of a region. newest: the number of the last value made before it."""

    def __init__(self, newest):
        self.newest, self._born = newest, next(_born)

    def keeps(self, scope):
        """Returns True if a scope began before the region and is still open: its names are looked up when they are read."""
        return scope.open and scope.born < self._born


class Scope:
    """source: the function's source; function: its Python object, None if it is defined in the kernel; outer: the scope
    in which it was defined."""

    def __init__(self, name, source, function, outer=None, local=()):
        self.name, self.source, self.function, self.outer = name, source, function, outer
        self.local = frozenset(local)  # the names that it assigns
        self.names = {}
        self.loops = []
        self.exits = ()  # each open `with` and `try`: (number of loops around it, scope and statements of its end)
        self.group = [self]  # the scopes that the statements may change: this one and those of open context managers
        self.context = None  # the Context, if this is the scope of a generator that `with` runs
        self.born, self.open = next(_born), True

    def bind(self, name, value, line):
        self.names[name] = Binding(value, line)

    def _host(self):
        scope = self
        while scope.function is None:
            scope = scope.outer
        return scope.function

    def globals(self):
        return self._host().__globals__

    def free_names(self):
        """Returns the names that the kernel's Python function reads from closure cells."""
        return self._host().__code__.co_freevars

    def find(self, name):
        """Returns (found, value, is_host). Host values come from Python's globals and closures."""
        scope = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name].value, False
            if name in scope.local:
                raise TileSyntaxError(f"Undefined variable {name}")
            scope = scope.outer
        function = self._host()
        if name in self.free_names():
            cell = function.__closure__[self.free_names().index(name)]
            note("cell", cell)
            try:
                return cell.cell_contents, True
            except ValueError:
                raise TileSyntaxError(f"Undefined variable {name}") from None
        note_item(function.__globals__, name)
        if name in function.__globals__:
            return function.__globals__[name], True
        note_item(vars(builtins), name)
        if hasattr(builtins, name):
            return getattr(builtins, name), True
        raise TileSyntaxError(f"Undefined variable {name}")

    def snapshot(self):
        return dict(self.names)

    def undefine(self, names):
        """Marks names that only some paths assign."""
        for name in names:
            self.names[name] = Binding(Undefined(), 0)
