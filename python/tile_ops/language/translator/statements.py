"""Translates statements."""

import ast

from . import classes, dictionary
from .contexts import YIELDS, Contexts, Then
from .control import Returned
from ..core.errors import TileSyntaxError, TileTypeError, TileValueError
from .loops import Loops
from .source import holds
from .records import Record, special
from ..functions.static import SpecialForm, items_of
from ..functions.text import assert_
from .unsupported import unsupported_syntax
from ..core.values import Array, ArrayChoice, Tile, is_constant, shown


class Statements(Loops, Contexts):
    """The part of the translator that translates statements. A statement returns None, LEFT or Returned."""

    def body(self, statements):
        """Returns the value that a function's body returns."""
        way = self.block(statements)
        return way.value if isinstance(way, Returned) else None

    def block(self, statements):
        """Returns LEFT or Returned, or None if control reaches the end of the statements."""
        for index, statement in enumerate(statements):
            self.node = statement
            if isinstance(statement, ast.If):
                way, done = self._if(statement, statements[index + 1 :])
                if done:
                    return way
            elif isinstance(statement, Then):
                way = statement.run()
            elif self.scope.context and holds([statement], YIELDS):
                return self._that_yields(statement, statements[index + 1 :])
            elif isinstance(statement, ast.With):
                return self.with_items(statement, statements[index + 1 :])
            elif isinstance(statement, ast.Try):
                return self.try_(statement, statements[index + 1 :])
            elif isinstance(statement, ast.While) and holds(statement.body, ast.Return):
                return self._while_that_returns(statement, statements[index + 1 :])
            else:
                method = getattr(self, "_do_" + type(statement).__name__, None)
                if method is None:
                    raise unsupported_syntax(statement)
                way = method(statement)
            if way is not None:
                return way
        return None

    def _if(self, node, rest):
        """Returns (the result as in block(), whether `rest` was translated as well)."""
        test = self.value(node.test)
        known = self.known_truth(test)
        context = self.scope.context
        if known is not None:
            taken = node.body if known else node.orelse
            to_end = holds(taken, ast.Return) and not self.scope.loops
            to_end = to_end or (context is not None and holds(taken, YIELDS))
            return self.block(taken + rest if to_end else taken), to_end
        condition = self.condition(test)
        yields = context is not None and holds([node], YIELDS)
        if (holds([node], ast.Return) and not self.scope.loops) or (yields and context.returns):
            # Both sides run to the function's end, so each yields what it returns.
            sides = (lambda: self._to_end(node.body + rest), lambda: self._to_end(node.orelse + rest))
            return self.branch(condition, sides, None), True
        if yields:  # each side contains the body of the with
            sides = (lambda: self.block(node.body + rest), lambda: self.block(node.orelse + rest))
            return self.branch(condition, sides, "if"), True
        way = self.branch(condition, (lambda: self.block(node.body), lambda: self.block(node.orelse)), "if")
        return way, False

    def _to_end(self, statements):
        way = self.block(statements)
        return Returned(None) if way is None else way

    def _that_yields(self, node, rest):
        """Translates a statement of a context manager that contains its yield, and the statements after it."""
        if isinstance(node, ast.With):
            return self.with_items(node, rest)
        if isinstance(node, ast.Try):
            return self.try_(node, rest)
        if isinstance(node, ast.For) and self.is_static_iter(node.iter):
            self._require_no_jumps(node)
            unrolled = []
            for item in items_of(self, node.iter):
                unrolled += [Then(node, lambda item=item: self.assign(node.target, item)), *node.body]
            return self.block(unrolled + rest)
        if isinstance(node, (ast.For, ast.While)):
            raise TileSyntaxError(f"{self.scope.name}: the `yield` must be outside of loops of the running kernel")
        return self.yielded(node, rest)

    def _do_Pass(self, node):
        pass

    def _do_Expr(self, node):
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def _do_Return(self, node):
        value = None if node.value is None else self.value(node.value)
        if self.depth == 0:
            self.require_nothing(value)
        return self.leave_with(value)

    def require_nothing(self, value):
        """Raises an error if a kernel returns a value. A tuple of None is allowed: a lambda may call several functions."""
        if value is not None and not (type(value) is tuple and value == (None,) * len(value)):
            raise TileSyntaxError("Tile kernels cannot return values; store them in an array")

    def _do_Break(self, node):
        return self.jump(True)

    def _do_Continue(self, node):
        return self.jump(False)

    def _do_Assign(self, node):
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def _do_AnnAssign(self, node):
        if node.value is not None:
            self.assign(node.target, self.value(node.value))

    def _do_AugAssign(self, node):
        if not isinstance(node.target, ast.Name):
            self.assign(node.target, None)
        read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        self.assign(node.target, self.binary(node.op, self.value(read), self.value(node.value)))

    def assign(self, target, value):
        if isinstance(value, SpecialForm):
            raise TileSyntaxError(f"{value.__name__}() must be used directly")
        if isinstance(target, ast.Name):
            self.scope.bind(target.id, value, target.lineno)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value)
        elif isinstance(target, ast.Subscript):
            owner = self.value(target.value)
            if isinstance(owner, (Array, ArrayChoice)):
                raise TileTypeError("Arrays do not support item assignment; use store or scatter")
            if isinstance(owner, Tile) or is_constant(owner):
                raise TileTypeError("Tiles are immutable: item assignment is not supported; use insert()")
            if isinstance(owner, Record) and special(owner, "__setitem__") is not None:
                self.call(special(owner, "__setitem__"), (owner, self._index(target.slice), value), {})
                return
            if type(owner) is dict:
                raise TileTypeError(dictionary.UNCHANGED)
            if type(owner) is tuple:
                raise TileTypeError(
                    "Tuples are immutable: item assignment is not supported; make another of parts: (*t[:1], item, *t[2:])"
                )
            raise TileTypeError(f"{shown(owner)} does not support item assignment")
        elif isinstance(target, ast.Attribute):
            raise TileTypeError(
                "Setting an attribute is not supported; make another object, of a dataclass with dataclasses.replace()"
            )
        else:
            raise TileSyntaxError(f"Unsupported syntax: assignment to {type(target).__name__}; write a, b = ...")

    def _unpack(self, target, value):
        if type(value) is not tuple:
            raise TileTypeError(f"Expected a tuple to unpack, got {shown(value)}")
        if any(isinstance(each, ast.Starred) for each in target.elts):
            raise TileSyntaxError("Unsupported syntax: a starred target; name each item")
        if len(value) != len(target.elts):
            many = "many" if len(value) > len(target.elts) else "few"
            raise TileValueError(f"Too {many} values to unpack (expected {len(target.elts)}, got {len(value)})")
        for each, item in zip(target.elts, value):
            self.assign(each, item)

    def _do_FunctionDef(self, node):
        if node.decorator_list:
            raise TileSyntaxError("Unsupported syntax: a decorator inside a kernel; define the function outside")
        self.scope.bind(node.name, self.local_function(node.name, node), node.lineno)

    def _do_ClassDef(self, node):
        self.scope.bind(node.name, classes.made(self, node), node.lineno)

    def _loop_checks(self, node):
        if node.orelse:
            raise TileSyntaxError(
                f"Unsupported syntax: `{'for' if isinstance(node, ast.For) else 'while'}` with `else`; set a name before "
                "`break`, and test it after the loop"
            )
        if isinstance(node, ast.For) and holds(node.body, ast.Return):
            raise TileSyntaxError("Returning from a for loop is not supported; use break, and return after the loop")

    def _require_no_jumps(self, node):
        for kind in (ast.Break, ast.Continue, ast.Return):
            if holds(node.body, kind, into_loops=kind is ast.Return):
                raise TileSyntaxError(f"{kind.__name__} in a for loop with static_iter() is not supported")

    def _unrolled(self, node):
        """Translates a copy of the body for each item of static_iter(...)."""
        self._require_no_jumps(node)
        for item in items_of(self, node.iter):
            self.node = node
            self.assign(node.target, item)
            self.block(node.body)

    def _do_For(self, node):
        if self.is_static_iter(node.iter):
            if node.orelse:
                raise TileSyntaxError("Unsupported syntax: `for` with `else`; write its body after the loop")
            return self._unrolled(node)
        self._loop_checks(node)
        if not isinstance(node.target, ast.Name):
            raise TileSyntaxError("Unsupported syntax: the target of a for loop over a range must be a name")
        self.counted(node, self.iterated(node))
        return None

    def _do_While(self, node):
        self._loop_checks(node)
        self.endless(node)

    def _while_that_returns(self, node, rest):
        self._loop_checks(node)
        made = self.endless(node, returns=True)
        if made is None:
            return self.block(rest)
        returned, value, leaves = made
        if not leaves:
            return self.leave_with(value)  # the statements after it are unreachable

        def behind():
            return self.block(rest) if self.scope.loops else self._to_end(rest)

        return self.branch(returned, (lambda: self.leave_with(value), behind), None)

    def _do_Assert(self, node):
        if self.emitter.cutile:
            raise TileSyntaxError("Unsupported syntax: Assert; use assert_()")
        message = None if node.msg is None else self.value(node.msg)
        assert_.lower(self, (self.value(node.test), message), {})
