"""with: generators that contextlib.contextmanager made context managers, as part of the kernel."""

import ast
import inspect
import types

from ..core.errors import TileSyntaxError, TileTypeError
from .scope import Scope
from .source import holds, names_of, source_of
from ..core.values import shown

_YIELDS = (ast.Yield, ast.YieldFrom)


def _split(node):
    """The statements before the one yield, its node, and those behind it."""
    if holds(node.body, ast.Return):
        raise TileSyntaxError(f"{node.name}: `return` in a context manager is not supported")
    places = [place for place, statement in enumerate(node.body) if holds([statement], _YIELDS)]
    count = sum(isinstance(each, _YIELDS) for each in ast.walk(node))
    if count != 1:
        raise TileSyntaxError(f"{node.name}: a context manager must have one yield statement (`yield`), it has {count}")
    statement = node.body[places[0]]
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Yield):
        raise TileSyntaxError(
            f"{node.name}: the `yield` must stand outside of loops and conditional statements, by itself"
        )
    return node.body[: places[0]], statement.value, node.body[places[0] + 1 :]


class _Exit(ast.stmt):
    """A statement that stands behind the body of a with."""

    _attributes = ("lineno", "col_offset", "end_lineno", "end_col_offset")


class Contexts:
    """The part of the translator that knows with."""

    def with_items(self, node, items, rest):
        """with items: body, and the statements behind it in this block. Its way, as block() gives it."""
        if not items:
            return self.block(node.body + rest)
        call = items[0].context_expr
        callee = self.value(call.func) if isinstance(call, ast.Call) else None
        generator = getattr(callee, "__wrapped__", None)
        if not isinstance(generator, types.FunctionType) or not inspect.isgeneratorfunction(generator):
            what = shown(callee) if isinstance(call, ast.Call) else shown(self.value(call))
            raise TileTypeError(f"`with` takes a call of a generator marked by contextlib.contextmanager, got {what}")
        source = source_of(generator)
        before, at, behind = _split(source.node)
        scope = Scope(generator.__name__, source, generator, None, names_of(source.node))
        arguments, named = self.given(call)
        self.enter(scope, source.node, inspect.signature(generator), arguments, named, generator)
        self.within(scope, source.node, lambda: self.block(before))
        value = self.within(scope, source.node, lambda: None if at.value is None else self.value(at.value))
        if items[0].optional_vars is not None:
            self.assign(items[0].optional_vars, value)
        scope.at_end = source.node, behind
        self.scope.exits += ((len(self.scope.loops), scope),)
        return self.with_items(node, items[1:], [ast.copy_location(_Exit(), node), *rest])

    def _do__Exit(self, _):
        """The end of a with."""
        self._leave_one()

    def _leave_one(self):
        *outer, (_, scope) = self.scope.exits
        self.scope.exits = tuple(outer)
        names, (node, behind) = scope.snapshot(), scope.at_end
        self.within(scope, node, lambda: self.block(behind))
        scope.names = names  # another way may end it, too

    def leave_contexts(self):
        """Ends what a jump leaves: each `with` of the innermost loop, of a function's end all."""
        exits, node = self.scope.exits, self.node
        while self.scope.exits and self.scope.exits[-1][0] == len(self.scope.loops):
            self._leave_one()
        self.scope.exits, self.node = exits, node
