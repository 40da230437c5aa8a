"""Functions that run while a kernel is compiled: static_eval, static_assert, static_iter, ensure_constant."""

import ast
import copy
import itertools

from ..core.checks import require_defined
from ..core.contracts import documented
from ..core.debugging import debugging
from ..core.errors import TileError, TileStaticAssertionError, TileStaticEvalError, TileSyntaxError, TileTypeError
from ..core.named import Named
from ..core.reached import note_evaluated
from ..core.registry import DEVICE_ONLY, evaluating, language_function
from ..core.values import Array, Tile, Undefined, shown
from .proxies import evaluation, plain, proxied

_MOST = 1000  # limit of a static_iter's items
_OF_ITEMS = ("enumerate", "zip", "reversed", "tuple", "list")  # functions that return the items of their arguments


class SpecialForm(Named):
    """A function of the language that takes its arguments' source; it is only called directly, with positional
    arguments."""

    language_value = True

    def __init__(self, function):
        self.__name__, self.__module__ = function.__name__, function.__module__
        self.__doc__ = documented(function.__name__, function.__doc__)
        self.__qualname__ = self.__name__
        self._function = function

    def __call__(self, *arguments, **_):
        if debugging.session:
            return debugging.session.language(self, arguments, {})
        raise RuntimeError(f"{DEVICE_ONLY} {self.__name__}() is for a kernel, a function that @kernel marks")

    def lower(self, translator, node):
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            raise TileSyntaxError(f"{self.__name__}() takes positional arguments only")
        return self._function(translator, *self._checked(node.args))

    def _checked(self, arguments):
        texts = {"static_eval": (1, 1, "a single expression"), "static_assert": (1, 2, "a condition and perhaps a message")}
        least, most, what = texts.get(self.__name__, (1, 1, "a single iterable"))
        if not least <= len(arguments) <= most:
            raise TileSyntaxError(f"{self.__name__}() expects {what}")
        return arguments


class _Names(dict):
    """The names that static_eval sees. Reading a name makes a proxy."""

    def __init__(self, translator):
        scopes, scope = [], translator.scope
        while scope is not None:
            scopes.append(scope)
            scope = scope.outer
        self.function = function = scopes[-1].function
        self.local = {name for scope in scopes for name in scope.names}
        super().__init__(function.__globals__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            try:
                self[name] = cell.cell_contents
            except ValueError:
                self[name] = Undefined()
        for scope in reversed(scopes):
            self.update({name: proxied(translator, binding.value) for name, binding in scope.names.items()})

    def __getitem__(self, name):
        return require_defined(name, super().__getitem__(name))


def evaluated(translator, node, what, more=()):
    """Returns the value of an expression that Python evaluates. more: additional names."""
    if evaluating.function:
        raise TileStaticEvalError(f"{what}() cannot be used inside {evaluating.function}().")
    local = set(translator.scope.names)
    for each in ast.walk(node):
        if isinstance(each, ast.NamedExpr) and each.target.id in local:
            raise TileStaticEvalError(f"{what}() attempted to modify a local variable '{each.target.id}'")
        if isinstance(each, ast.Call) and isinstance(each.func, (ast.Name, ast.Attribute)):
            _refuse_nested(translator, each.func, what)
    code = compile(ast.Expression(node), translator.scope.source.file, "eval")
    names = _Names(translator)
    names.update(more)
    note_evaluated(code, names.function, names.local | set(more))
    try:
        with evaluation(translator, what):
            return eval(code, names)  # noqa: S307 the user's own source
    except TileError:
        raise
    except Exception as error:
        raise TileStaticEvalError(f"Exception was raised inside {what}() ({type(error).__name__}: {error})") from error


def _refuse_nested(translator, function, what):
    try:
        callee = translator.value(function)
    except TileError:
        return
    if isinstance(callee, SpecialForm):
        raise TileStaticEvalError(f"{callee.__name__}() cannot be used inside {what}().")


@SpecialForm
def static_eval(translator, node):
    """Returns the value of any Python expression of constants, computed while the kernel is compiled."""
    value = evaluated(translator, node, "static_eval")
    if isinstance(value, (list, dict, set)):
        raise TileTypeError(f"Cannot create constant from value of type {type(value).__name__}.")
    return translator.host_value(plain(value))


@SpecialForm
def static_assert(translator, node, message=None):
    """Raises TileStaticAssertionError while the kernel is compiled unless a constant condition holds."""
    condition = _condition(translator, node)
    if isinstance(condition, Tile):
        raise TileTypeError("static_assert: the condition must be a compile-time constant; assert_() checks while it runs")
    if not isinstance(condition, bool):
        raise TileTypeError(f"static_assert: the condition must be a boolean, got {shown(condition)}")
    if condition:
        return None
    text = str(evaluated(translator, message, "static_assert")) if message is not None else ""
    raise TileStaticAssertionError(f"Static assertion failed: {text}" if text else "Static assertion failed")


def _condition(translator, node):
    """Returns the condition, translated or, if only Python can compute it at compile time, evaluated by Python."""
    calls, outer, depth = any(isinstance(each, ast.Call) for each in ast.walk(node)), translator.node, translator.depth
    scope, condition, failed = translator.scope, None, None
    with translator.emitter.inside(translator.emitter.block([])[0]):  # the block is discarded
        try:
            condition = translator.value(node)
        except TileError as error:
            failed = error
        if calls and (failed or isinstance(condition, Tile)):
            inner = translator.node
            translator.scope, translator.node, translator.depth = scope, outer, depth
            try:
                known = evaluated(translator, node, "static_assert")
            except TileError:
                known = None
            if isinstance(known, bool):
                return known
            translator.node = inner
    if failed:
        raise failed
    return condition


@SpecialForm
def static_iter(translator, node):
    """Gives the items of an iterable, each in a copy of the loop's body: `for i in static_iter(range(4))`."""
    raise TileSyntaxError("static_iter() is only allowed as iterable in a `for` loop")


def items_of(translator, node):
    """Returns the items of the iterable of a static_iter(…)."""
    translator.node = node
    (iterable,), functions = static_iter._checked(node.args), {}
    iterable = _named_lambdas(translator, iterable, functions)
    iterable = evaluated(translator, iterable, "static_iter", functions)
    try:
        items = list(itertools.islice(iter(iterable), _MOST + 1))
    except TypeError as error:
        raise TileTypeError(str(error)) from None
    if len(items) > _MOST:
        raise TileTypeError(f"Maximum number of iterations ({_MOST}) has been reached while unrolling static_iter()")
    made = []
    for index, item in enumerate(items):
        try:
            made.append(_item(translator, item))
        except TileError as error:
            raise TileTypeError(f"Invalid item #{index} of static_iter() iterable: {error.message}") from None
    return made


def _item(translator, value):
    """Returns an item as a value of the kernel; a list becomes a tuple, because kernels have no lists."""
    if type(value) in (tuple, list):
        return tuple(_item(translator, each) for each in value)
    return translator.host_value(value)


def _named_lambdas(translator, node, functions):
    """Returns the iterable with each lambda among its items replaced by a name, whose function is put in `functions`."""
    if isinstance(node, ast.Lambda):
        name = f"<lambda {len(functions)}>"
        functions[name] = translator.value(node)
        return ast.copy_location(ast.Name(name, ast.Load()), node)
    parts = {
        ast.Tuple: ("elts",), ast.List: ("elts",), ast.IfExp: ("body", "orelse"), ast.BinOp: ("left", "right"),
        ast.Starred: ("value",),
    }.get(type(node), ())  # fmt: skip
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OF_ITEMS:
        parts = ("args",)
    if not parts or not any(isinstance(each, ast.Lambda) for each in ast.walk(node)):
        return node
    node = copy.copy(node)
    for name in parts:
        part = getattr(node, name)
        named = [_named_lambdas(translator, each, functions) for each in (part if isinstance(part, list) else [part])]
        setattr(node, name, named if isinstance(part, list) else named[0])
    return node


@language_function
def ensure_constant(translator, value, /):
    """Returns the value, which must be known while the kernel is compiled."""
    if isinstance(value, (Tile, Array)):
        raise TileStaticAssertionError(f"the value of type {shown(value)} is not a compile-time constant")
    return value
