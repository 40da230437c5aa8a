"""Calls in kernels: of the language's functions, of Python's, which are inlined, and of builtins."""

import ast
import builtins
import dataclasses
import inspect
import operator
import types

from ..functions import arithmetic, unary
from ..core import checks, dtypes
from . import records
from ..core.errors import TileError, TileRecursionError, TileSyntaxError, TileTypeError, UnsupportedCallError
from ..functions.memory import Slice
from ..functions.products import matmul
from ..core.registry import HelperFunction, LanguageFunction, binding_text
from .scope import Scope
from ..functions.shapes import astype
from .source import names_of, source_of
from ..functions.static import SpecialForm
from ..functions.text import joined, parts_of, print_
from .unsupported import unsupported_call
from ..core.values import ArrayList, LocalFunction, Method, Tile, constant_of, is_constant, shown

_DEEPEST = 1000


def _extremum(name, function):
    def call(translator, *values):
        if len(values) != 2:
            raise TileTypeError(f"{name}() of {len(values)} values; give exactly two")
        return function.lower(translator, values, {})

    return call


def _to_constant(kind):
    def call(translator, value=0, /):
        if is_constant(value):
            return kind(constant_of(value))
        if isinstance(value, str):
            return kind(value)
        if kind is bool and isinstance(value, Tile):
            return translator.condition(value)
        raise TileTypeError(f"{kind.__name__}() expects a constant argument, got {shown(value)}; use astype()")

    return call


def _len(translator, value, /):
    value = value.items if isinstance(value, ArrayList) else value
    if not isinstance(value, (tuple, dict, str)):
        raise TileTypeError(f"object of type {shown(value)} has no len()")
    return len(value)


def _getattr(translator, owner, name, /):
    return translator.attribute(owner, name)


def _tuple(translator, value=(), /):
    if type(value) is not tuple:
        raise TileTypeError(f"tuple() expects a tuple, got {shown(value)}")
    return value


def _lowered(function):
    return lambda translator, *values, **named: function.lower(translator, values, named)


_BUILTINS = {
    range: lambda translator, *values: checks.made_range(values),
    min: _extremum("min", arithmetic.minimum),
    max: _extremum("max", arithmetic.maximum),
    abs: _lowered(unary.abs_),
    divmod: _lowered(arithmetic.divmod_),
    pow: _lowered(arithmetic.pow_),
    print: _lowered(print_),
    int: _to_constant(int),
    float: _to_constant(float),
    bool: _to_constant(bool),
    len: _len,
    getattr: _getattr,
    slice: lambda translator, *values: slice(*values),
    str: lambda translator, value="", /: joined(parts_of(value)),
    repr: lambda translator, value, /: repr(value) if isinstance(value, str) else joined(parts_of(value)),
    tuple: _tuple,
    Slice: lambda translator, start, length: Slice(start, length),
    dataclasses.replace: records.replaced,
    operator.matmul: _lowered(matmul),
    operator.neg: _lowered(arithmetic.negative),
    operator.abs: _lowered(unary.abs_),
    operator.invert: _lowered(arithmetic.bitwise_not),
    operator.not_: _lowered(arithmetic.logical_not),
}
_BUILTINS |= {
    getattr(operator, name): _lowered(function)
    for name, function in {
        "add": arithmetic.add, "sub": arithmetic.sub, "mul": arithmetic.mul, "truediv": arithmetic.truediv,
        "floordiv": arithmetic.floordiv, "mod": arithmetic.mod, "pow": arithmetic.pow_, "and_": arithmetic.bitwise_and,
        "or_": arithmetic.bitwise_or, "xor": arithmetic.bitwise_xor, "lshift": arithmetic.bitwise_lshift,
        "rshift": arithmetic.bitwise_rshift, "gt": arithmetic.greater, "ge": arithmetic.greater_equal,
        "lt": arithmetic.less, "le": arithmetic.less_equal, "eq": arithmetic.equal, "ne": arithmetic.not_equal,
    }.items()
}  # fmt: skip


def parameters_of(arguments, defaults, named_defaults):
    """The signature of a def or lambda from its tree and the values of its defaults."""
    kind, made = inspect.Parameter, []
    plain = [*arguments.posonlyargs, *arguments.args]
    for place, each in enumerate(plain):
        behind = place - (len(plain) - len(defaults))
        how = kind.POSITIONAL_ONLY if place < len(arguments.posonlyargs) else kind.POSITIONAL_OR_KEYWORD
        made.append(kind(each.arg, how, default=defaults[behind] if behind >= 0 else kind.empty))
    if arguments.vararg:
        made.append(kind(arguments.vararg.arg, kind.VAR_POSITIONAL))
    for each, node, value in zip(arguments.kwonlyargs, arguments.kw_defaults, named_defaults):
        made.append(kind(each.arg, kind.KEYWORD_ONLY, default=kind.empty if node is None else value))
    if arguments.kwarg:
        made.append(kind(arguments.kwarg.arg, kind.VAR_KEYWORD))
    return inspect.Signature(made)


class Calls:
    """The part of the translator that knows calls."""

    def _Call(self, node):
        callee = self.value(node.func)
        if isinstance(callee, SpecialForm):
            return callee.lower(self, node)
        if callee is tuple and len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
            return self.generated(node.args[0])
        return self.call(callee, *self.given(node))

    def given(self, node):
        """The arguments of a call, by place and by name."""
        arguments, named = [], {}
        for each in node.args:
            if isinstance(each, ast.Starred):
                items = self.value(each.value)
                if type(items) is not tuple:
                    raise TileTypeError(f"Expected a tuple after *, got {shown(items)}")
                arguments.extend(items)
            else:
                arguments.append(self.value(each))
        for each in node.keywords:
            value = self.value(each.value)
            if each.arg is not None:
                named[each.arg] = value
            elif isinstance(value, dict):
                named.update(value)
            else:
                raise TileTypeError(f"Expected a dictionary after **, got {shown(value)}")
        return tuple(arguments), named

    def call(self, callee, arguments, named):
        """The value of a call."""
        if isinstance(callee, LanguageFunction):
            return callee.lower(self, arguments, named)
        if isinstance(callee, HelperFunction):
            if not callee.tile:
                raise UnsupportedCallError(
                    f"{callee.__name__}() is not supported in device code: it is marked tile=False"
                )
            callee = callee.function
        if isinstance(callee, Method) and isinstance(callee.function, types.FunctionType):
            return self.call(callee.function, (callee.owner, *arguments), named)
        if isinstance(callee, Method):
            return callee.function.lower(self, (callee.owner, *arguments), named)
        if isinstance(callee, LocalFunction):
            signature = parameters_of(callee.node.args, callee.defaults, callee.named_defaults)
            scope = Scope(callee.name, callee.scope.source, None, callee.scope, names_of(callee.node))
            return self._inline(scope, callee.node, signature, arguments, named, callee)
        dtype = None if callee in (int, float, bool) else dtypes.known(callee)
        if dtype is not None:
            if len(arguments) != 1 or named:
                raise TileTypeError(f"{dtype}() takes one argument, got {len(arguments) + len(named)}")
            return astype.lower(self, (arguments[0], dtype), {})
        try:
            builtin = _BUILTINS.get(callee)
        except TypeError:
            builtin = None
        if builtin:
            try:
                return builtin(self, *arguments, **named)
            except TypeError as error:
                raise TileTypeError(f"{callee.__name__}(): {binding_text(error)}") from None
        if isinstance(callee, types.FunctionType) and (callee.__module__ or "").startswith("tile_ops.cutile"):
            raise unsupported_call(callee)
        if isinstance(callee, types.FunctionType):
            function = inspect.unwrap(callee)
            source = source_of(function)
            scope = Scope(function.__name__, source, function, None, names_of(source.node))
            return self._inline(scope, source.node, inspect.signature(function), arguments, named, function)
        if isinstance(callee, type) and dataclasses.is_dataclass(callee):
            return records.built(self, callee, arguments, named)
        if isinstance(callee, records.Record) and records.special(callee, "__call__"):
            return self.call(records.special(callee, "__call__"), (callee, *arguments), named)
        return self._refuse(callee)

    def _refuse(self, callee):
        if isinstance(callee, type) and getattr(builtins, callee.__name__, None) is not callee:
            raise UnsupportedCallError(
                f'Creating instances of type "{callee.__name__}" is not supported in device code; '
                "a frozen dataclass may be made in a kernel"
            )
        if callable(callee) and hasattr(callee, "__name__"):
            raise unsupported_call(callee)
        raise TileTypeError(f"Cannot call an object of type {shown(callee)}")

    def enter(self, scope, node, signature, arguments, named, function):
        """Binds a call's arguments in the function's scope."""
        if self.depth >= _DEEPEST:
            raise TileRecursionError(
                f"Calls are nested more than {_DEEPEST} deep; a recursion needs an end that constants decide"
            )
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError as error:
            raise TileTypeError(f"{scope.name}(): {binding_text(error, signature)}") from None
        given = set(bound.arguments)
        bound.apply_defaults()
        host = isinstance(function, types.FunctionType)
        for name, value in bound.arguments.items():
            if host and name not in given and not isinstance(value, (dict, tuple)):
                value = self.host_value(value)
            scope.bind(name, dict(value) if isinstance(value, dict) else value, node.lineno)
        if isinstance(node, ast.AsyncFunctionDef):
            raise TileSyntaxError("Unsupported syntax: an async function")

    def _inline(self, scope, node, signature, arguments, named, function):
        self.enter(scope, node, signature, arguments, named, function)
        return self.within(
            scope, node, lambda: self.value(node.body) if isinstance(node, ast.Lambda) else self.body(node.body)
        )

    def within(self, scope, node, translate):
        """What `translate` gives in a function's scope; errors get its place."""
        outer, outer_node = self.scope, self.node
        self.scope, self.node = scope, node
        self.depth += 1
        try:
            value = translate()
        except TileError as error:
            error.frames.insert(0, self.frame())
            self.scope, self.node = outer, outer_node
            raise
        finally:
            self.depth -= 1
        self.scope, self.node = outer, outer_node
        return value
