"""Translates calls: of language functions, of Python functions, which are inlined, and of builtins."""

import ast
import builtins
import dataclasses
import enum
import functools
import inspect
import operator
import types

from ..functions import arithmetic, unary
from ..core import advice, dtypes
from . import dictionary, enumerations, records
from ..core.errors import TileError, TileRecursionError, TileSyntaxError, TileTypeError, TileValueError, UnsupportedCallError
from ..functions.memory import Slice
from ..functions.products import matmul
from ..core.reads import note_function
from ..core.registry import HelperFunction, LanguageFunction, binding_text
from ..core.signatures import own_signature
from .callables import require_inlined
from .ranges import made_range
from .scope import Scope
from ..functions.shapes import converted
from .source import names_of, source_of
from .stacks import EACH, on_a_new_stack
from ..functions.static import SpecialForm
from ..functions.text import joined, parts_of, print_, repr_parts
from .unsupported import unsupported_call
from ..core.values import ArrayList, FunctionChoice, LocalFunction, Method, Partial, Tile, constant_of, is_constant, shown

_DEEPEST = 1000


def _extremum(name, function):
    def call(translator, *values):
        if len(values) != 2:
            raise TileTypeError(f"{name}() of {len(values)} values; give exactly two")
        return function.lower(translator, values, {})

    return call


def _to_constant(kind):
    def call(translator, value=0, /):
        if is_constant(value) or isinstance(value, str):
            try:
                return kind(constant_of(value))
            except (ValueError, OverflowError) as error:
                raise TileValueError(f"{kind.__name__}(): {error}") from None
        if kind is bool and isinstance(value, Tile):
            return translator.condition(value)
        raise TileTypeError(f"{kind.__name__}() expects a constant argument, got {shown(value)}; use astype()")

    return call


def _len(translator, value, /):
    value = value.items if isinstance(value, ArrayList) else value
    if not (isinstance(value, (tuple, dict, str)) or (isinstance(value, type) and issubclass(value, enum.Enum))):
        raise TileTypeError(f"object of type {shown(value)} has no len()")
    return len(value)


def _getattr(translator, owner, name, /):
    if not isinstance(name, str):
        raise TileTypeError(f"getattr(): the name must be a constant string, got {shown(name)}")
    return translator.attribute(owner, name)


def _tuple(translator, value=(), /):
    if type(value) is dict:
        return tuple(value)
    if type(value) is not tuple:
        raise TileTypeError(f"tuple() expects a tuple, got {shown(value)}")
    return value


def _lowered(function):
    return lambda translator, *values, **named: function.lower(translator, values, named)


_BUILTINS = {
    range: made_range,
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
    dict: dictionary.made,
    slice: lambda translator, *values: slice(*values),
    str: lambda translator, value="", /: joined(parts_of(translator, value)),
    repr: lambda translator, value, /: joined(repr_parts(translator, value)),
    tuple: _tuple,
    Slice: lambda translator, start, length: Slice(start, length),
    dataclasses.replace: records.replaced,
    functools.partial: lambda translator, function, /, *values, **named: Partial(function, values, named),
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
    """Returns the signature of a def or lambda from its syntax tree and the values of its defaults."""
    kind, made = inspect.Parameter, []
    plain = [*arguments.posonlyargs, *arguments.args]
    for index, each in enumerate(plain):
        behind = index - (len(plain) - len(defaults))
        how = kind.POSITIONAL_ONLY if index < len(arguments.posonlyargs) else kind.POSITIONAL_OR_KEYWORD
        made.append(kind(each.arg, how, default=defaults[behind] if behind >= 0 else kind.empty))
    if arguments.vararg:
        made.append(kind(arguments.vararg.arg, kind.VAR_POSITIONAL))
    for each, node, value in zip(arguments.kwonlyargs, arguments.kw_defaults, named_defaults):
        made.append(kind(each.arg, kind.KEYWORD_ONLY, default=kind.empty if node is None else value))
    if arguments.kwarg:
        made.append(kind(arguments.kwarg.arg, kind.VAR_KEYWORD))
    return inspect.Signature(made)


class Calls:
    """The part of the translator that translates calls."""

    def _Call(self, node):
        callee = self.value(node.func)
        if isinstance(callee, SpecialForm):
            return callee.lower(self, node)
        if callee is tuple and len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
            return self.generated(node.args[0])
        return self.call(callee, *self.given(node))

    def given(self, node):
        """Returns the arguments of a call, by position and by name."""
        arguments, named = self.listed(node.args), {}
        for each in node.keywords:
            value = self.value(each.value)
            if each.arg is not None:
                named[each.arg] = value
            elif isinstance(value, dict):
                for name in value:
                    if not isinstance(name, str):
                        raise TileTypeError(f"The keys of a dictionary after ** are names, got {name!r}")
                    if name in named:
                        raise TileTypeError(f"got multiple values for keyword argument '{name}'")
                named.update(value)
            else:
                raise TileTypeError(f"Expected a dictionary after **, got {shown(value)}")
        return arguments, named

    def call(self, callee, arguments, named):
        """Returns the value of a call."""
        if isinstance(callee, LanguageFunction):
            return callee.lower(self, arguments, named)
        if isinstance(callee, HelperFunction):
            if not callee.tile:
                raise UnsupportedCallError(f"{callee.__name__}() is not supported in device code: it is marked tile=False")
            return self.call(self.host_value(callee.function), arguments, named)
        if isinstance(callee, Partial):
            return self.call(callee.function, (*callee.arguments, *arguments), {**callee.named, **named})
        if isinstance(callee, Method) and isinstance(callee.function, types.FunctionType):
            return self.call(callee.function, (callee.owner, *arguments), named)
        if isinstance(callee, Method):
            return callee.function.lower(self, (callee.owner, *arguments), named)
        if isinstance(callee, FunctionChoice):
            return self._call_one_of(callee, arguments, named)
        if isinstance(callee, LocalFunction):
            signature = parameters_of(callee.node.args, callee.defaults, callee.named_defaults)
            scope = Scope(callee.name, callee.scope.source, None, callee.scope, names_of(callee.node))
            return self._inline(scope, callee.node, signature, arguments, named, callee)
        dtype = None if callee in (int, float, bool) else dtypes.known(callee)
        if dtype is not None:
            return converted(self, dtype, *arguments, **named)
        try:
            builtin = _BUILTINS.get(callee)
        except TypeError:
            builtin = None
        if builtin:
            try:
                return builtin(self, *arguments, **named)
            except TypeError as error:
                text = self._misfit(builtin, arguments, named) or binding_text(error)
                raise TileTypeError(f"{callee.__name__}(): {text}") from None
        if isinstance(callee, types.FunctionType) and (callee.__module__ or "").startswith("tile_ops.cutile"):
            raise unsupported_call(callee, advice.module_name(self.emitter.cutile))
        if isinstance(callee, types.FunctionType):
            require_inlined(callee)
            note_function(callee)
            source = source_of(callee)
            scope = Scope(callee.__name__, source, callee, None, names_of(source.node))
            return self._inline(scope, source.node, own_signature(callee), arguments, named, callee)
        if isinstance(callee, type) and issubclass(callee, enum.Enum):
            return enumerations.found(callee, arguments, named)
        if isinstance(callee, type) and dataclasses.is_dataclass(callee):
            return records.built(self, callee, arguments, named)
        if isinstance(callee, records.Record) and records.special(callee, "__call__"):
            return self.call(records.special(callee, "__call__"), (callee, *arguments), named)
        return self._refuse(callee)

    def _call_one_of(self, choice, arguments, named, at=0):
        """Calls the chosen function: one branch for each candidate."""
        if at == len(choice.items) - 1:
            return self.call(choice.items[at], arguments, named)
        here = self.emitter.emit("eq", choice.index, self.emitter.constant(at, choice.index.dtype))
        ways = (
            lambda: self.call(choice.items[at], arguments, named),
            lambda: self._call_one_of(choice, arguments, named, at + 1),
        )
        return self.chosen(here, ways, "call")

    def _misfit(self, builtin, arguments, named):
        """Returns why arguments do not fit the signature of a row of _BUILTINS; None: they fit."""
        signature = inspect.signature(functools.partial(builtin, self))
        try:
            signature.bind(*arguments, **named)
        except TypeError as error:
            return binding_text(error, signature)
        return None

    def _refuse(self, callee):
        if isinstance(callee, type) and getattr(builtins, callee.__name__, None) is not callee:
            raise UnsupportedCallError(
                f'Creating instances of type "{callee.__name__}" is not supported in device code; '
                "a frozen dataclass may be made in a kernel"
            )
        if callable(callee) and hasattr(callee, "__name__"):
            raise unsupported_call(callee, advice.module_name(self.emitter.cutile))
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
        return self.within(scope, node, lambda: self.value(node.body) if isinstance(node, ast.Lambda) else self.body(node.body))

    def within(self, scope, node, translate):
        """Returns the result of `translate` in a function's scope; errors get its location."""
        outer, outer_node = self.scope, self.node
        self.scope, self.node = scope, node
        self.depth += 1
        try:
            value = translate() if self.depth % EACH else on_a_new_stack(translate)
        except TileError as error:
            self.locate(error)
            self.scope, self.node = outer, outer_node
            raise
        finally:
            self.depth -= 1
            scope.open = False
        self.scope, self.node = outer, outer_node
        return value

    def locate(self, error):
        """Adds the current position in the current function to an error from a call."""
        if isinstance(error, TileError):
            error.frames.insert(0, self.frame())
