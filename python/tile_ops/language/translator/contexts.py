"""Translates with and try: runs their end code on every path out. A generator marked with contextlib.contextmanager is
inlined into the kernel, with the body of the `with` in place of its `yield`."""

import ast
import dataclasses
import inspect
import types

from ..core.errors import TileSyntaxError, TileTypeError
from ..core.reads import note_function
from ..core.registry import HelperFunction
from ..core.signatures import own_signature
from ..core.values import LocalFunction, shown
from . import records
from .callables import generator_of
from .scope import Scope
from .source import holds, names_of, source_of

YIELDS = (ast.Yield, ast.YieldFrom)
_YIELDED = "<yielded>"


class Then(ast.stmt):
    """A statement, inserted between those of the source, that calls a function of the translator."""

    _attributes = ("lineno", "col_offset", "end_lineno", "end_col_offset")

    def __init__(self, location=None, run=None):
        super().__init__()
        self.run = run
        if location is not None:
            ast.copy_location(self, location)


def _require_supported(node):
    """Raises an error if a generator contains unsupported statements."""
    for each in ast.walk(node):
        if isinstance(each, ast.YieldFrom):
            raise TileSyntaxError(f"{node.name}: `yield from` in a context manager is not supported; write `with` and `yield`")
        if isinstance(each, (ast.For, ast.While)) and holds(each.body, ast.Return):
            raise TileSyntaxError(f"{node.name}: `return` in a loop of a context manager is not supported; use break")
    if holds(node.body, ast.Return):
        raise TileSyntaxError(f"{node.name}: `return` in a context manager is not supported; put what it skips into an `if`")


def _yield_of(statement):
    """Returns the yield that a statement consists of; None: it contains none. Error: the yield is nested deeper."""
    if not holds([statement], YIELDS):
        return None
    if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Yield):
        return statement.value
    raise TileSyntaxError(f"a `yield` must be a statement, or be assigned, not within {type(statement).__name__}")


class Context:
    """A generator that `with` runs. outer: the scope of the with; body: its statements; target: the target of `as`;
    returns: True if each side of a branch with a yield is translated up to the end of the function."""

    def __init__(self, outer, node, item, body):
        self.outer, self.node, self.target, self.body = outer, node, item.optional_vars, body
        ends = bool(outer.context) and outer.context.returns and holds(body, YIELDS)
        self.returns = ends or (not outer.loops and holds(body, ast.Return))
        self.end = None  # the statement that marks the generator's end


class Contexts:
    """The part of the translator that translates with and try."""

    def with_items(self, node, rest):
        """Translates a with and the statements after it in its block. Returns the same as block()."""
        item, body = node.items[0], node.body
        if len(node.items) > 1:
            body = [ast.copy_location(ast.With(node.items[1:], body), node)]
        call = item.context_expr
        callee = self.value(call.func) if isinstance(call, ast.Call) else None
        generator = generator_of(callee)
        if isinstance(generator, types.FunctionType) and inspect.isgeneratorfunction(generator):
            return self._with_generator(node, generator, call, Context(self.scope, node, item, body), rest)
        manager = callee
        if not isinstance(call, ast.Call):
            manager = self.value(call)
        elif isinstance(callee, (types.FunctionType, LocalFunction, HelperFunction)) or dataclasses.is_dataclass(callee):
            manager = self.call(callee, *self.given(call))
        if isinstance(manager, records.Record) and records.special(manager, "__exit__"):
            return self._with_record(node, manager, item, body, rest)
        raise TileTypeError(
            f"`with` takes a call of a generator marked by contextlib.contextmanager, or a frozen dataclass with "
            f"__enter__ and __exit__, got {shown(manager)}"
        )

    def _with_generator(self, node, generator, call, context, rest):
        source, outer = source_of(generator), self.scope
        scope = Scope(generator.__name__, source, generator, None, names_of(source.node))
        note_function(generator)
        self.enter(scope, source.node, own_signature(generator), *self.given(call), generator)
        scope.context, scope.group = context, outer.group
        context.end = Then(source.node, lambda: self._end_generator(scope))
        outer.group.append(scope)
        self.scope = scope
        try:
            self.node = source.node
            _require_supported(source.node)
            return self.block([*source.node.body, context.end, *rest])
        except Exception as error:
            if self.scope is scope:
                self.locate(error)
                self.scope, self.node = outer, node
            raise
        finally:
            scope.open = False
            outer.group.remove(scope)

    def yielded(self, statement, rest):
        """Translates a statement that yields: first the body of the with, then the statements after the yield, `rest`."""
        scope, context = self.scope, self.scope.context
        at = _yield_of(statement)
        if _YIELDED in scope.names:
            raise TileSyntaxError(f"{scope.name}: a context manager yields once; this is a second `yield` on one path")
        value = None if at.value is None else self.value(at.value)
        scope.bind(_YIELDED, True, at.lineno)
        for target in getattr(statement, "targets", ()):
            self.assign(target, None)
        outer, end = context.outer, rest[: rest.index(context.end) + 1]
        self.scope, self.node = outer, context.node
        if context.target is not None:
            self.assign(context.target, value)
        outer.exits += ((len(outer.loops), scope, end),)
        resume = Then(statement, lambda: self._resume(scope))
        return self.block([*context.body, resume, *rest])

    def _resume(self, scope):
        self.scope = scope

    def _end_generator(self, scope):
        if _YIELDED not in scope.names:
            raise TileSyntaxError(f"{scope.name}: a context manager must `yield` on each path through it")
        self.scope = scope.context.outer
        self.scope.exits = self.scope.exits[:-1]

    def _with_record(self, node, manager, item, body, rest):
        enter = records.special(manager, "__enter__")
        if enter is None:
            raise TileTypeError(f"{shown(manager)} has no __enter__")
        value = self.call(enter, (manager,), {})
        if item.optional_vars is not None:
            self.assign(item.optional_vars, value)

        def leave():
            self._end_plain()
            self.call(records.special(manager, "__exit__"), (manager, None, None, None), {})

        return self._with_end(body, [Then(node, leave)], rest)

    def _with_end(self, body, end, rest):
        """Translates `body`, then `end`, which also runs if the body jumps out, then `rest`."""
        scope = self.scope
        scope.exits += ((len(scope.loops), scope, end),)
        return self.block([*body, *end, *rest])

    def _end_plain(self):
        self.scope.exits = self.scope.exits[:-1]

    def try_(self, node, rest):
        """Translates try with finally, then the statements after it."""
        if node.handlers:
            raise TileSyntaxError("Unsupported syntax: Try; nothing raises in a kernel; test with if")
        if holds(node.finalbody, (ast.Return, ast.Break, ast.Continue), into_loops=False):
            raise TileSyntaxError("Unsupported syntax: a jump out of `finally`; jump after it")
        return self._with_end(node.body + node.orelse, [Then(node, self._end_plain), *node.finalbody], rest)

    def leave_contexts(self):
        """Runs the end of each `with` and `try` that a jump leaves: those in the innermost loop, or in the function."""
        scope, exits, node = self.scope, self.scope.exits, self.node
        while scope.exits and scope.exits[-1][0] == len(scope.loops):
            _, self.scope, end = scope.exits[-1]
            self.block(end)
        self.scope, scope.exits, self.node = scope, exits, node
